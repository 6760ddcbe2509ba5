#include "train/tasks/letter_task.h"
#include "train/tasks/tasks.h"

namespace attend::train {
namespace {

class CopyTask : public LetterTask {
 public:
  using LetterTask::LetterTask;

 protected:
  std::string answer(const std::string& text) const override { return text; }
};

}  // namespace

TaskInfo copy_task() {
  return {"copy",
          "copy of the letters: cab=cab.",
          CopyTask::defaults(),
          make<CopyTask>,
          {"length", "symbols"}};
}

}  // namespace attend::train
