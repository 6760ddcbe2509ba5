#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Text that comes in pieces and ends where one of some stop texts begins. It gives each byte on as
/// soon as that is certain: what may be the beginning of a stop text waits for the rest, and so
/// does the beginning of a UTF-8 character. How the text is cut into pieces does not change what it
/// gives in all. Bytes that are no UTF-8 are given on as they are.
///
///     TextStream stream({"\n\n"});
///     stream.add("one\n");  // "one"
///     stream.add("two");    // "\ntwo"
class TextStream {
 public:
  /// Throws InputError if one of the texts is empty.
  explicit TextStream(std::vector<std::string> stops = {});

  /// Takes the next piece; returns what can be given on. Of stop texts that overlap the one that
  /// ends first counts, and of those that end together the longest.
  std::string add(std::string_view piece);

  /// The rest, when no more will come.
  std::string finish();

  /// The stop text that has come; nothing is given on after it.
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  std::string release(std::size_t bytes);

  std::vector<std::string> stops_;
  std::string waiting_;
  std::optional<std::string> stopped_by_;
};

}  // namespace attend
