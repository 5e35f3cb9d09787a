// The MLP of a layer, behind its second norm. A model names one when it makes its layers, and the layer calls it in its
// parts `hidden` and `projection`, which always run one behind the other, and asks it for its bytes before. It has
// parameters among those of the layer, but no memory and no state. One that has ports of its own comes in two parts
// more, `route` in front of these and `combine` behind them.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "models/common/product.h"

namespace zrt::models {

enum class MlpPart : uint8_t { route, hidden, projection, combine };

// A port between parts of an MLP. Its number among the layer's follows first_mlp_port; its rows are Mlp::port_rows
// where it delivers, else the microbatch's.
struct MlpPort {
  std::string_view name;
  MlpPart part;
  int64_t width;
  Seam seam;
  size_t element;  // as in Port
  uint8_t used_by = Port::all_used;
};
inline constexpr size_t first_mlp_port = 3;

class Mlp {
 public:
  virtual ~Mlp() = default;
  // The products of all rows with weights in a part, in order.
  virtual std::vector<Linear> linears(MlpPart part) const = 0;
  // The part whose backward tells what a router did, and the experts that it picks from.
  virtual std::optional<MlpPart> routing_part() const { return std::nullopt; }
  virtual int64_t experts() const { return 0; }
  virtual std::vector<MlpPort> ports() const { return {}; }
  virtual int64_t port_rows(const Shape&) const { return 0; }  // of ports that deliver
  // These follow from `linears` unless said otherwise: FLOPs of a forward over a microbatch; products with weights as
  // Block::products has them; bytes of scratch.
  virtual double flops(const Shape& shape, MlpPart part) const;
  virtual std::vector<GemmSpec> products(const Shape& shape) const;
  virtual uint64_t forward_scratch(const Shape& shape) const;
  virtual uint64_t backward_scratch(const Shape& shape) const;

  // Bytes of what follows, for all rows. Outside training, forward alone uses both, and one may serve as the other.
  virtual uint64_t kept_bytes(const Shape& shape) const = 0;
  virtual uint64_t routed_bytes(const Shape&) const { return 0; }
  virtual uint64_t forward_bytes(const Shape& shape) const = 0;
  // Tells that expand() may write `space` before it has read all of `normed`. Else they lie one over the other.
  virtual bool reads_late() const { return false; }
  struct Forward {
    std::byte* routed;   // what combine() and backward need, written by route()
    std::byte* kept;     // what backward needs, written by expand()
    std::byte* space;    // from expand() to project()
    std::byte* scratch;  // of products
  };
  virtual void route(const Call&, const Forward&, const void* /*normed*/) const {}
  virtual void expand(const Call& call, const Forward& forward, const void* normed) const = 0;
  // to = what the projection makes [+ add]; add may be null, or `to`.
  virtual void project(const Call& call, const Forward& forward, void* to, const void* add) const = 0;
  virtual void combine(const Call&, const Forward&, void* /*to*/, const void* /*add*/) const {}  // the same

  // Bytes of what backward makes in a part. Half::both: in the workspace. Else: what the part holds between the halves.
  virtual uint64_t backward_bytes(const Shape& shape, MlpPart part, Half half) const = 0;
  struct Backward {
    std::byte *routed, *kept;  // null in the weight half
    std::byte *route, *hidden, *projection;
    std::byte* scratch;
  };
  // All are called in every half. The input half writes no gradients of parameters; the weight half has no weights,
  // and a null d_normed. Only the first reads d_projected. The last may find d_normed in the memory of `normed`, or
  // in that of `projection` in a whole backward: it reads these before it writes d_normed.
  virtual void backward_combine(const Call&, const Backward&, const void* /*d_projected*/) const {}
  virtual void backward_projection(const Call& call, const Backward& backward, const void* d_projected) const = 0;
  virtual void backward_hidden(const Call& call, const Backward& backward, const void* normed,
                               void* d_normed) const = 0;
  virtual void backward_route(const Call&, const Backward&, const void* /*normed*/, void* /*d_normed*/) const {}
};

}  // namespace zrt::models
