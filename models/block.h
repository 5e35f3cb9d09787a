// A block is one step of a model in order: embedding, transformer layer, head. It declares its parameters, what it
// keeps for backward, its workspace and its FLOPs, and implements forward and backward by hand. Users can define their
// own.
//
// A block owns no memory. The runtime hands it pointers into the arena; all of them are 64-byte aligned. Shapes are
// (B, T, C), row-major, contiguous, in the compute type; statistics inside `saved` may be fp32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/philox.h"
#include "models/anatomy.h"
#include "models/kernels/gemm.h"
#include "models/masking.h"
#include "models/param.h"
#include "models/router_tally.h"
#include "models/shape.h"

namespace zrt::models {

// One call, of a run of the block's parts. Pointers a block does not use are null.
struct Call {
  Shape shape;
  Parts parts = all_parts;  // that forward and backward compute; blocks of one part need not look
  Half half = Half::both;   // of a backward
  bool again = false;  // forward: the first of the parts finds what it keeps, and makes from it what the next one reads
  const int32_t* tokens = nullptr;     // (rows) embedding
  const int32_t* targets = nullptr;    // (rows) head; not_counted rows enter neither loss nor gradient
  const int32_t* positions = nullptr;  // (rows) in their documents, with Shape::documents; else a sample's 0 to T - 1
  const void* input = nullptr;         // (rows, C) output of the previous block
  void* output = nullptr;              // (rows, C); decode head: (B, V) fp32 logits
  const void* d_output = nullptr;  // (rows, C) gradient of the output; null for the head, which starts from the loss
  void* d_input = nullptr;         // (rows, C); null for the embedding
  // Each part's saved_bytes, written by forward, read by backward. Empty outside training.
  std::span<std::byte* const> saved;
  // Each part's held_bytes, written by the input half of a backward, read by the weight half. Empty with both. The
  // weight half has neither weights nor input nor saved, the input half no gradients of parameters.
  std::span<std::byte* const> held;
  // Each port of the anatomy, (rows, width), and its gradient. Null, or beyond the end, inside a run of parts.
  std::span<void*const> ports, d_ports;
  std::byte* workspace = nullptr;        // workspace_bytes of the pass, contents undefined before and after
  std::byte* cache = nullptr;            // decode: cache_bytes, kept from token to token
  std::span<const void* const> weights;  // params() order, compute type
  std::span<void* const> grads;          // params() order, grad_type; null: nobody wants it, the parameter is frozen
  std::span<const uint8_t> accumulate;   // params() order: 1 adds to grads, 0 overwrites every element
  RouterTally* router = nullptr;         // backward, input half: of a block that routes, added to
  ExpertLoad* expert_loads = nullptr;    // the same by expert; null: nobody wants them
  double* loss = nullptr;                // head: overwritten with the sum of the token losses (nats) of this call
  float loss_scale = 1;       // d(total)/d(token loss): 1 / targets of the global batch, times the fp16 scale
  float router_scale = 1;     // d(total)/d(a row's router loss): rows count whether they have a target or not
  core::RngKey rng;           // seed and step; `tensor` is set by the block from its dropout sites
  int tensor_rank = 0;        // among the ranks that share the block
  uint64_t first_sample = 0;  // global number within the step of row 0's sample: dropout index base
  int64_t position = 0;       // decode: position of the new token

  std::byte* saved_of(size_t part) const { return part < saved.size() ? saved[part] : nullptr; }
  std::byte* held_of(size_t part) const { return part < held.size() ? held[part] : nullptr; }
  void* port(size_t number) const { return number < ports.size() ? ports[number] : nullptr; }
  void* d_port(size_t number) const { return number < d_ports.size() ? d_ports[number] : nullptr; }
  // Returns where a port, or its gradient, lies: at `inside` where that is inside the run.
  void* port_or(size_t number, void* inside) const { return port(number) != nullptr ? port(number) : inside; }
  void* d_port_or(size_t number, void* inside) const { return d_port(number) != nullptr ? d_port(number) : inside; }
  bool finds(size_t part) const { return again && parts.first == part; }  // what it keeps
};

// A square of `length` by `length` for each head of each sample; the width is of a head.
struct Scores {
  int64_t heads = 0, length = 0, width = 0;
};

class Block {
 public:
  virtual ~Block() = default;
  virtual const std::string& name() const = 0;  // "wte", "h.3", "head"
  virtual const std::vector<Param>& params() const = 0;
  virtual int64_t output_width() const = 0;  // C of the output

  virtual const Anatomy& anatomy() const;  // of one part, unless said otherwise

  // Rows of a port, where these are not the microbatch's.
  virtual int64_t port_rows(size_t /*port*/, const Shape& shape) const { return shape.rows(); }

  // The bytes that a part keeps in training, else those of what crosses runs of parts.
  virtual uint64_t saved_bytes(const Shape& shape, size_t part) const = 0;
  // The bytes of what the input half of a part's backward leaves for the weight half, which reads this, ports and
  // gradients of ports alone. Gradients of parameters that the input half makes beside are in it, too.
  virtual uint64_t held_bytes(const Shape&, size_t /*part*/) const { return 0; }
  virtual uint64_t forward_workspace_bytes(const Shape& shape) const = 0;  // any mode and parts
  virtual uint64_t backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const = 0;  // mode train
  virtual uint64_t cache_bytes(const Shape& shape) const { return shape.B * 0ull; }                 // mode decode

  // True where all calls but decode read Call::positions, with Shape::documents.
  virtual bool reads_positions() const { return true; }

  // True where backward reads `input` of forward (kept alive until then) beside `saved`.
  virtual bool backward_reads_input() const = 0;

  virtual void forward(const Call& call) const = 0;
  // Writes d_input and every gradient of its parts. The head computes loss and gradient here in one chunked pass; its
  // forward in training mode only prepares (final norm).
  virtual void backward(const Call& call) const = 0;
  virtual void decode(const Call& call) const = 0;

  // True where forward or backward use Call::rng: such calls change from step to step.
  virtual bool draws_numbers() const { return true; }

  // The part whose backward adds to Call::router; nothing: the block has no router. And the experts that it picks from;
  // 0 where loads are not to be counted.
  virtual std::optional<size_t> routing_part() const { return std::nullopt; }
  virtual int64_t experts() const { return 0; }

  // Multiply-add FLOPs of the matrices of one forward of parts over one microbatch (causal attention counted as half).
  virtual double forward_flops(const Shape& shape, Parts parts) const = 0;
  double forward_flops(const Shape& shape) const { return forward_flops(shape, anatomy().all()); }
  // The FLOPs of these in which no weight takes part.
  virtual double attention_flops(const Shape&, Parts) const { return 0; }
  // Scores that its attention makes of queries and keys in one forward at core::place().
  virtual Scores scores(const Shape&) const { return {}; }
  // The products with weights of one forward and backward over one microbatch at core::place(), without biases and
  // with operands as dense as they may be there, for the ceiling that benchmarks print.
  virtual std::vector<GemmSpec> products(const Shape&) const { return {}; }
};

// Lays out what parts keep, but those of `without`, where they keep it together: each begins on 64 bytes. Returns the
// bytes; with `base`, `places` (by part) gets where each one's lies.
uint64_t lay_out_saved(const Block& block, const Shape& shape, Parts parts, Parts without = {},
                       std::byte* base = nullptr, std::span<std::byte*> places = {});

// Lays out alike what parts hold between the halves of a backward.
uint64_t lay_out_held(const Block& block, const Shape& shape, Parts parts, std::byte* base = nullptr,
                      std::span<std::byte*> places = {});

// The parts that a forward runs: in training backward-only parts wait for backward.
inline Parts forward_parts(const Block& block, Mode mode) {
  return mode == Mode::train ? block.anatomy().forward_in_training() : block.anatomy().all();
}

// The parts that leave something for backward, and those before them: what has to run again where nothing is kept.
Parts parts_to_rerun(const Block& block, const Shape& shape);

}  // namespace zrt::models
