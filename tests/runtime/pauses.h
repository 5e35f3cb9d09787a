// Pauses by which tests make one part of a run slow, to see that others wait for it.
#pragma once
#include <chrono>

namespace zrt::testing {

// A busy machine lets threads come late, which hides a part of a pause. So pauses double until they are long beside
// that: what holds for none of them, up to seconds, does not hold.
class Pauses {
 public:
  std::chrono::milliseconds length() const { return length_; }
  double seconds() const { return std::chrono::duration<double>(length_).count(); }

  // Returns true where `holds` is true with one of the pauses. It tries them in turn, the shortest first.
  template <class Holds>
  bool until(Holds holds) {
    for (length_ = shortest; length_ <= longest; length_ *= 2) {
      if (holds()) return true;
    }
    length_ = longest;
    return false;
  }

 private:
  static constexpr std::chrono::milliseconds shortest{20}, longest{20 << 8};
  std::chrono::milliseconds length_ = shortest;
};

}  // namespace zrt::testing
