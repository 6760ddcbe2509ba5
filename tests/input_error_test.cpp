#include "attend/input_error.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

TEST(WithSource, PrefixesTheMessageOfInputErrors) {
  EXPECT_THAT([] { with_source("a.txt", [] { throw InputError("damaged"); }); },
              testing::ThrowsMessage<InputError>("a.txt: damaged"));
}

TEST(WithSource, PassesResultsAndOtherErrorsThrough) {
  EXPECT_EQ(with_source("a.txt", [] { return 3; }), 3);
  EXPECT_THAT([] { with_source("a.txt", [] { throw std::logic_error("mistake"); }); },
              testing::ThrowsMessage<std::logic_error>("mistake"));
}

}  // namespace
}  // namespace attend
