// Calls what each library that attend::train links is used for.
#include <attend/train/checksum.h>
#include <attend/train/labelled_lines.h>
#include <attend/train/tokenizers.h>

#include <fstream>

int main() {
  using namespace attend::train;
  std::ofstream("table.csv") << "text,label\none,a\ntwo,b\n";
  const auto lines = read_labelled_lines("table.csv");
  const auto tokenizer = make_tokenizer(TextUnit::subword, "one two one two", 270);
  const bool kept = tokenizer->decode(tokenizer->encode(lines.texts[1])) == "two";
  return kept && crc32c("123456789") == 0xE3069283 ? 0 : 1;
}
