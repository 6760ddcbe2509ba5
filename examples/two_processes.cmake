# Runs PROGRAM alone and as two processes, in two subfolders of FOLDER. Both must print the same results.
file(REMOVE_RECURSE ${FOLDER})
string(RANDOM LENGTH 4 ALPHABET 0123456789 port)
set(launch ${CMAKE_COMMAND} -E env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=2${port})
execute_process(COMMAND ${PROGRAM} ${FOLDER}/alone OUTPUT_VARIABLE alone COMMAND_ERROR_IS_FATAL ANY)
# The commands of a pipe run at the same time. The output is that of the last one.
execute_process(COMMAND ${launch} RANK=1 ${PROGRAM} ${FOLDER}/two
                COMMAND ${launch} RANK=0 ${PROGRAM} ${FOLDER}/two
                OUTPUT_VARIABLE two COMMAND_ERROR_IS_FATAL ANY)
message("${alone}${two}")
string(REPLACE "processes 1" "processes 2" expected "${alone}")
execute_process(COMMAND ${CMAKE_COMMAND} -E env RANK=0 ${PROGRAM} ${FOLDER}/refused
                RESULT_VARIABLE status ERROR_VARIABLE error)
if(NOT status EQUAL 1 OR NOT error MATCHES WORLD_SIZE)
  message(FATAL_ERROR "expected status 1 and an error, found ${status}: ${error}")
endif()
if(NOT two STREQUAL expected OR NOT two MATCHES "processes 2, loss")
  message(FATAL_ERROR "expected two processes with the results of one")
endif()
