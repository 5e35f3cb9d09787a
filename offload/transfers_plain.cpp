#include <unistd.h>

#include <cerrno>
#include <deque>

#include "offload/transfers.h"

namespace zrt::offload {
namespace {

class PlainTransfers : public Transfers {
 public:
  explicit PlainTransfers(int descriptor) : descriptor_(descriptor) {}

  void start(unsigned slot, const Transfer& t) override {
    const auto offset = static_cast<off_t>(t.offset);
    const ssize_t moved =
        t.writes ? ::pwrite(descriptor_, t.data, t.bytes, offset) : ::pread(descriptor_, t.data, t.bytes, offset);
    done_.push_back({slot, moved < 0 ? -errno : moved});
  }

  Done wait() override {
    const Done done = done_.front();
    done_.pop_front();
    return done;
  }

  int pin(const std::vector<Memory>&) override { return 0; }  // it would change nothing

 private:
  int descriptor_;
  std::deque<Done> done_;
};

}  // namespace

std::unique_ptr<Transfers> make_plain_transfers(int descriptor) {
  return std::make_unique<PlainTransfers>(descriptor);
}

}  // namespace zrt::offload
