// A block is one step of a model in order: embedding, transformer layer, head. It declares its parameters, what it
// keeps for backward, its workspace and its FLOPs, and implements forward and backward by hand. Users can define their
// own.
//
// A block owns no memory. The runtime hands it pointers into the arena; all of them are 64-byte aligned. Shapes are
// (B, T, C), row-major, contiguous, in the compute type; statistics inside `saved` may be fp32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/philox.h"
#include "models/kernels/gemm.h"
#include "models/shape.h"

namespace zrt::models {

enum class Init : uint8_t { zeros, ones, normal };

struct Param {
  std::string name;            // Hugging Face name; two blocks naming the same tensor share it
  std::vector<int64_t> shape;  // as Hugging Face stores it
  Init init = Init::zeros;
  float deviation = 0;  // of Init::normal
  int64_t elements() const;
};

inline constexpr int32_t not_counted = -1;  // a target without a token

// One call. Pointers a block does not use are null.
struct Call {
  Shape shape;
  const int32_t* tokens = nullptr;   // (rows) embedding
  const int32_t* targets = nullptr;  // (rows) head; not_counted rows enter neither loss nor gradient
  const void* input = nullptr;       // (rows, C) output of the previous block
  void* output = nullptr;            // (rows, C); decode head: (B, V) fp32 logits; null in a recompute that needs none
  const void* d_output = nullptr;    // (rows, C) gradient of the output; null for the head, which starts from the loss
  void* d_input = nullptr;           // (rows, C); null for the embedding
  std::byte* saved = nullptr;        // saved_bytes: written by forward, read by backward
  std::byte* recomputed = nullptr;   // recomputed_bytes: written by forward and by recompute, read by backward
  std::byte* workspace = nullptr;    // workspace_bytes of the pass, contents undefined before and after
  std::byte* cache = nullptr;        // decode: cache_bytes, kept from token to token
  std::span<const void* const> weights;  // params() order, compute type
  std::span<void* const> grads;          // params() order, grad_type
  std::span<const uint8_t> accumulate;   // params() order: 1 adds to grads, 0 overwrites every element
  double* loss = nullptr;                // head: overwritten with the sum of the token losses (nats) of this call
  float loss_scale = 1;                  // d(total)/d(token loss): 1 / tokens of the global batch, times the fp16 scale
  core::RngKey rng;                      // seed and step; `tensor` is set by the block from its dropout sites
  uint64_t first_sample = 0;             // global number within the step of row 0's sample: dropout index base
  int64_t position = 0;                  // decode: position of the new token
};

class Block {
 public:
  virtual ~Block() = default;
  virtual const std::string& name() const = 0;  // "wte", "h.3", "head"
  virtual const std::vector<Param>& params() const = 0;
  virtual int64_t output_width() const = 0;  // C of the output

  virtual uint64_t saved_bytes(const Shape& shape) const = 0;                             // mode train
  virtual uint64_t recomputed_bytes(const Shape& shape) const { return shape.B * 0ull; }  // mode train; Keep::all: 0
  virtual uint64_t forward_workspace_bytes(const Shape& shape) const = 0;                 // any mode
  virtual uint64_t backward_workspace_bytes(const Shape& shape) const = 0;                // mode train
  virtual uint64_t cache_bytes(const Shape& shape) const { return shape.B * 0ull; }       // mode decode

  // Whether backward reads `input` of forward (kept alive until then) beside `saved`.
  virtual bool backward_reads_input() const = 0;

  virtual void forward(const Call& call) const = 0;
  // Writes d_input and every gradient. The head computes loss and gradient here in one chunked pass; its forward in
  // training mode only prepares (final norm).
  virtual void backward(const Call& call) const = 0;
  virtual void decode(const Call& call) const = 0;
  // The bits of forward once more, in front of backward: with Keep::all `saved`, with Keep::selective `recomputed`, of
  // the `saved` that forward left. In the workspace of forward.
  virtual void recompute(const Call& call) const { forward(call); }
  virtual bool recompute_writes_output() const { return true; }  // else Call::output is null there
  virtual double recompute_flops(const Shape& shape) const { return forward_flops(shape); }

  // Whether forward or backward use Call::rng. Calls that do change from step to step.
  virtual bool draws_numbers() const { return true; }

  // Multiply-add FLOPs of the matrices of one forward over one microbatch (causal attention counted as half).
  virtual double forward_flops(const Shape& shape) const = 0;
  // The products with weights of one forward and backward over one microbatch at core::place(), without biases and
  // with operands as dense as they may be there, for the ceiling that benchmarks print.
  virtual std::vector<GemmSpec> products(const Shape&) const { return {}; }
};

}  // namespace zrt::models
