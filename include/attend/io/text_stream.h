#pragma once

#include "attend/api.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Streams decoded text and stops at stop sequences. Bytes are returned as soon as they cannot
/// belong to a stop sequence or to an incomplete UTF-8 character. The total output does not depend
/// on how the text is split into pieces. Invalid UTF-8 is passed through.
///
///     TextStream stream({"\n\n"});
///     stream.add("one\n");  // "one"
///     stream.add("two");    // "\ntwo"
class ATTEND_API TextStream {
 public:
  /// Throws InputError if a stop sequence is empty.
  explicit TextStream(std::vector<std::string> stops = {});

  /// Appends `piece` to the input and returns the text that can now be output. If several stop
  /// sequences match, the stop sequence that ends first applies. If several stop sequences end at
  /// the same byte, the longest of them applies.
  std::string add(std::string_view piece);

  /// Ends the input and returns the remaining text.
  std::string finish();

  /// Returns the stop sequence that was found, or nullopt. After the call of `add` that finds a
  /// stop sequence, `add` and `finish` return empty strings.
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  std::string release(std::size_t bytes);

  std::vector<std::string> stops_;
  std::string waiting_;
  std::optional<std::string> stopped_by_;
};

}  // namespace attend
