"""Checks that every public name has a doc comment that Doxygen can read (scripts/api-reference --check).

Skipped without Doxygen, which scripts/test installs.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

DOCUMENTED = """
namespace attend {

class Elsewhere;

/// A macro.
#define ATTEND_SAMPLE 1

/// An enum.
enum class Kind {
  one,  ///< first
  /// Second.
  two,
};

template <>
struct EnumNames<Kind> {
  static constexpr std::array<std::string_view, 2> names{"one", "two"};
};

/// Options.
///
///     FooOptions(1).bias(false)  // a comment
struct FooOptions {
  FooOptions(int64_t width) : width_(width) {}
  /// Width (Vaswani et al.
  /// 2017).
  ATTEND_ARG(int64_t, width);
  /// Whether to add a bias.
  ATTEND_ARG(bool, bias) = true;
  /// A long type.
  ATTEND_ARG(std::function<double(const std::map<std::string, torch::Tensor>&)>,
            score) = nullptr;
};

/// A module.
class ATTEND_API FooImpl : public torch::nn::Cloneable<FooImpl> {
 public:
  explicit FooImpl(const FooOptions& options);
  /// `x` (B, T, E).
  torch::Tensor forward(const torch::Tensor& x, bool flag = false);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  FooOptions options;
  torch::Tensor weight;  ///< (E)

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(false)})

 private:
  struct Hidden {
    int64_t number;
  };
  void helper();
  Hidden hidden_;
};
TORCH_MODULE(Foo);

/// A base.
class Base {
 public:
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;
  bool operator==(const Base&) const = default;
  virtual ~Base() = default;
  /// An action.
  virtual void act() = 0;
  friend void befriended(Base&);
};

/// Derived.
class Derived : public Base {
 public:
  void act() override;
};

/// A function.
ATTEND_API void function();

/// An alias.
using Alias = int64_t;

/// A constant.
inline constexpr double kOne = 1.0;

}  // namespace attend
"""

UNDOCUMENTED = """
#define ATTEND_BARE 1

namespace attend {

enum class Shade { dark, light };

/// An enum.
enum class Colour {
  red,  ///< red
  green,
};

struct Plain {
  int64_t field;
  struct Nested {};
};

struct BarOptions {
  ATTEND_ARG(bool, bias) = true;
  ATTEND_ARG(int64_t, width);
};

class ATTEND_API BarImpl : public torch::nn::Cloneable<BarImpl> {
 public:
  torch::Tensor forward(const torch::Tensor& x);
  template <typename T>
  T convert() const;
  static int64_t count();

 protected:
  virtual void hook();
};
TORCH_MODULE(Bar);

ATTEND_API void function();
/// The first overload.
void overloaded(int64_t);
void overloaded(double);
using Alias = int64_t;
inline constexpr double kOne = 1.0;

namespace train {
void nested();
}

/// A \\x0a outside of code.
void unreadable();

}  // namespace attend
"""

EXPECTED = {
    "define ATTEND_BARE",
    "enum attend::Shade",
    "enumerator attend::Shade::dark",
    "enumerator attend::Shade::light",
    "enumerator attend::Colour::green",
    "struct attend::Plain",
    "variable attend::Plain::field",
    "struct attend::Plain::Nested",
    "struct attend::BarOptions",
    "function attend::BarOptions::bias",
    "function attend::BarOptions::width",
    "class attend::BarImpl",
    "function attend::BarImpl::forward",
    "function attend::BarImpl::convert",
    "function attend::BarImpl::count",
    "function attend::BarImpl::hook",
    "function attend::function",
    "function attend::overloaded",
    "typedef attend::Alias",
    "variable attend::kOne",
    "function attend::train::nested",
}


def check(*arguments):
    return subprocess.run([ROOT / "scripts/api-reference", "--check", *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def check_header(text):
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder) / "attend/nn/sample.h"
        header.parent.mkdir(parents=True)
        header.write_text(text)
        return check("--include", folder)


class ApiReference(unittest.TestCase):
    def test_public_headers_are_documented(self):
        result = check()
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_documented_header_passes(self):
        result = check_header(DOCUMENTED)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_undocumented_names_are_reported(self):
        result = check_header(UNDOCUMENTED)
        self.assertEqual(result.returncode, 1, result.stdout)
        found = re.findall(r"sample\.h:\d+: (\w+ \S+) has no doc comment", result.stdout)
        self.assertEqual(set(found), EXPECTED, result.stdout)
        # The reported line numbers are those of the header, not those of the rewritten copy.
        for name in ("forward", "nested"):
            line = 1 + next(i for i, text in enumerate(UNDOCUMENTED.splitlines()) if f" {name}(" in text)
            self.assertRegex(result.stdout, rf"sample\.h:{line}: function \S+::{name} ")

    def test_unreadable_comment_is_reported(self):
        self.assertIn("unknown command '\\x0a'", check_header(UNDOCUMENTED).stdout)

    def test_unknown_macro_form_is_an_error(self):
        result = check_header(DOCUMENTED + "TORCH_MODULE_IMPL(Foo, OtherImpl);\n")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("cannot read: TORCH_MODULE_IMPL", result.stdout)


if __name__ == "__main__":
    if shutil.which("doxygen") is None:
        print("skipped: needs Doxygen (scripts/install-packages doxygen)")
        sys.exit(77)
    unittest.main()
