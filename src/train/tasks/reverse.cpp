#include "train/tasks/letter_task.h"
#include "train/tasks/tasks.h"

namespace attend::train {
namespace {

class ReverseTask : public LetterTask {
 public:
  using LetterTask::LetterTask;

 protected:
  std::string answer(const std::string& text) const override {
    return {text.rbegin(), text.rend()};
  }
};

}  // namespace

TaskInfo reverse_task() {
  return {"reverse",
          "letters in reverse order: cab=bac.",
          ReverseTask::defaults(),
          make<ReverseTask>,
          {"length", "symbols"}};
}

}  // namespace attend::train
