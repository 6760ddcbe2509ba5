#pragma once

#include "attend/api.h"

#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

/// Returns the name in `names` that `unknown` probably means, compared as plain names: the same
/// name; a name of which `unknown` is a synonym in other libraries; the only name with the same
/// words and the fewest additional ones; or the name with the smallest edit distance, which is at
/// most 1 for every 3 letters, and at most 3. Returns an empty string if there is none, and for
/// more than 64 letters.
ATTEND_API std::string nearest_name(std::string_view unknown,
                                    const std::vector<std::string>& names);

/// Returns "; did you mean 'NAME'?" for the `nearest_name`; empty if there is none.
///
///     did_you_mean("--lrr", {"--lr", "--seed"}) == "; did you mean '--lr'?"
ATTEND_API std::string did_you_mean(std::string_view unknown,
                                    const std::vector<std::string>& names);

}  // namespace attend::train
