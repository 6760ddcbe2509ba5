#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace attend {

/// A scope that has a `State`. Guard classes are built on it. Each thread has a stack with an entry
/// for each scope that the thread made. The constructor adds the entry to the stack. Scopes may be
/// destroyed in any order and on any thread. On the thread that made the scope, the destructor
/// removes the entry. On another thread, the destructor only marks the entry as ended, and the
/// thread that made the scope removes the entry later.
///
///     ThreadScope<Counter> scope;
///     if (auto* counter = ThreadScope<Counter>::innermost()) ++counter->calls;
template <typename State>
class ThreadScope {
 public:
  /// Makes a scope with `State(args...)`. It becomes the innermost scope of this thread.
  template <typename... Args>
  explicit ThreadScope(Args&&... args)
      : stack_(of_this_thread()), entry_(std::make_shared<Entry>(std::forward<Args>(args)...)) {
    stack_->push_back(entry_);
  }
  ~ThreadScope() {
    entry_->ended = true;
    if (thread_ == std::this_thread::get_id()) remove_ended(*stack_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

  State& state() { return entry_->state; }

  /// Returns the state of the innermost scope of this thread; null if there is none.
  static State* innermost() {
    auto& stack = *of_this_thread();
    remove_ended(stack);
    return stack.empty() ? nullptr : &stack.back()->state;
  }

  /// Calls `function(state)` for all scopes of this thread.
  template <typename Function>
  static void for_each(const Function& function) {
    for (auto& entry : *of_this_thread()) {
      if (!entry->ended) function(entry->state);
    }
  }

 private:
  struct Entry {
    template <typename... Args>
    explicit Entry(Args&&... args) : state{std::forward<Args>(args)...} {}
    State state;
    std::atomic<bool> ended = false;
  };
  using Stack = std::vector<std::shared_ptr<Entry>>;

  static const std::shared_ptr<Stack>& of_this_thread() {
    thread_local const auto stack = std::make_shared<Stack>();
    return stack;
  }

  static void remove_ended(Stack& stack) {
    std::erase_if(stack, [](const auto& entry) { return entry->ended.load(); });
  }

  std::shared_ptr<Stack> stack_;  // of the thread that made the scope; may outlive the thread
  std::shared_ptr<Entry> entry_;
  std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace attend
