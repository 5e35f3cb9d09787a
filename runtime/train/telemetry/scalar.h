// Numbers that a run shows of itself at one moment, under DeepSpeed's names; and where they are written to.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zrt::runtime {

struct Scalar {
  std::string tag;  // "Train/Samples/train_loss"
  double value = 0;
};

class ScalarSink {
 public:
  virtual ~ScalarSink() = default;
  // `samples`: consumed since the run's first step, the x axis. A disk that takes no more is no reason to throw: see
  // error().
  virtual void add(int64_t samples, std::span<const Scalar> scalars) = 0;
  virtual const std::string& error() const = 0;  // what cannot be written, and why; "" when all is well
};

}  // namespace zrt::runtime
