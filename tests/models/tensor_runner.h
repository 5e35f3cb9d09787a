// Runs the blocks of a model that tensor-parallel ranks share over one microbatch, all ranks one after the other, with
// the exchanges in between made here in plain loops: an oracle of what the runtime's exchanges must do.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "tests/device.h"
#include "tests/models/block_runner.h"
#include "tests/models/guarded_buffer.h"
#include "tests/models/reference.h"

namespace zrt::test {

class TensorRunner {
 public:
  // `model` is made for `ranks`, which may share rows; `shape` is of training in fp32.
  TensorRunner(const models::Model& model, const models::Shape& shape, int ranks, bool sequence_parallel = false);

  bool halves = false;                // backwards come in halves, where products' weights have gradients
  void load(const Tensors& weights);  // whole tensors, of which each rank takes its part
  // Forward and backward, the sum of the token losses. Throws std::runtime_error where ranks disagree about it, or
  // about the gradient of what all of them have.
  double train(const Batch& batch, const RunOptions& options = {});
  Tensors grads() const;  // whole
  // The largest absolute value of gradients of padding.
  double most_of_padding() const;

 private:
  struct Rank {
    std::map<std::string, GuardedBuffer> weights, grads;
    std::vector<std::vector<GuardedBuffer>> saved;  // by block and part
    std::vector<GuardedBuffer> outputs;             // by block
    std::vector<GuardedBuffer> held;                // by part, of the block at hand
    std::vector<GuardedBuffer> ports, d_ports;      // of the block at hand
    GuardedBuffer d_output, d_input;
    std::vector<uint8_t> written;
    Visible<double> loss = Visible<double>(1);
  };
  void run(size_t block, models::Parts parts, bool backward, bool again, const Batch& batch, const RunOptions& options,
           models::Half half = models::Half::both);
  void exchange(size_t block, size_t part, bool backward);
  void open_ports(size_t block, bool backward);
  bool exchanged(const models::Port& port, bool backward) const;
  int64_t row_share() const;
  std::vector<models::Parts> runs(size_t block, models::Parts parts, bool backward) const;
  const models::Param& param(const std::string& name) const;

  const models::Model& model_;
  models::Shape shape_;
  std::vector<Rank> ranks_;
  bool rows_;                            // are shared
  std::map<std::string, bool> written_;  // gradients that hold a sum to add to
};

}  // namespace zrt::test
