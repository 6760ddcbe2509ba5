# Writes the C++ source OUTPUT, which defines the function FUNCTION in attend::app. The function
# returns the content of the file INPUT.
#
#   cmake -DINPUT=page.html -DOUTPUT=page.cpp -DFUNCTION=page -P cmake/EmbedFile.cmake
file(READ ${INPUT} bytes HEX)
string(REPEAT "." 40 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
file(
  WRITE ${OUTPUT}
  "#include <string_view>\n\n"
  "namespace {\nconstexpr unsigned char kBytes[] = {\n${bytes}};\n}  // namespace\n\n"
  "namespace attend::app {\nstd::string_view ${FUNCTION}();\n"
  "std::string_view ${FUNCTION}() {\n"
  "  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};\n}\n}  // namespace attend::app\n")
