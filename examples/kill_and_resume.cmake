# Trains with PROGRAM in two subfolders of FOLDER. In FOLDER/whole, training is not interrupted. In
# FOLDER/killed, PROGRAM is killed after step 25 and started again. Both subfolders must then
# contain the same weights and the same exported model, byte for byte. If PROGRAM is started again
# after training has finished, it must not train again, but export the same model again.
file(REMOVE_RECURSE ${FOLDER})
function(run expected)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_VARIABLE output RESULT_VARIABLE status)
  message("${output}status: ${status}")
  if(expected STREQUAL killed)
    if(NOT status MATCHES "kill" OR EXISTS ${FOLDER}/killed/summary.json)
      message(FATAL_ERROR "expected the program to be killed before the end of training")
    endif()
  elseif(NOT status EQUAL 0 OR NOT output MATCHES "${expected}")
    message(FATAL_ERROR "expected status 0 and output with '${expected}'")
  endif()
endfunction()
run("started from step 0" ${FOLDER}/whole)
run(killed ${FOLDER}/killed 25)
run("started from step (9|18)" ${FOLDER}/killed) # 9 if checkpoint 18 was not saved yet
file(REMOVE ${FOLDER}/killed/model.pt)
run("started from step 60" ${FOLDER}/killed)
foreach(file model.safetensors model.pt)
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${FOLDER}/whole/${file}
                          ${FOLDER}/killed/${file} RESULT_VARIABLE differ)
  if(differ)
    message(FATAL_ERROR "${file} differs between the resumed and the uninterrupted run")
  endif()
endforeach()
message("the resumed run equals the uninterrupted run")
