#include "models/common/layer.h"

#include "core/device.h"

namespace zrt::models {

Layer::Layer(const BlockSizes& sizes, std::string name, const Norm& norm)
    : TransformerBlock(sizes, std::move(name)),
      norm_(norm),
      anatomy_{{"norm_1", "attention", "norm_2", "hidden", "projection", "output"},
               {{"norm_1", norm_1, sizes.hidden, Seam::enter},
                {"attention", attention, sizes.hidden, Seam::leave},
                {"norm_2", norm_2, sizes.hidden, Seam::enter},
                {"projection", projection, sizes.hidden, Seam::leave}},
               {norm_2, projection},
               norm_2,
               1u << attention | 1u << hidden | 1u << projection} {}

void Layer::keep(Stream& stream, size_t part, BumpAllocator& layout, const Shape& shape) const {
  if (part == norm_1) stream.first_norm = norm_.statistics_in(layout, row_share(shape));
  if (part != norm_2) return;
  stream.second_norm = norm_.statistics_in(layout, row_share(shape));
  stream.residual = layout.take(own_bytes(shape));
}

void Layer::first_norm(const Call& call, void* y, const Norm::Statistics& statistics) const {
  norm_.forward(call, first_norm_weight_, own_rows(call).count, call.input, y, statistics);
  const Dropout dropped = first_norm_site_ ? dropout(call, *first_norm_site_) : Dropout{};
  if (dropped.probability > 0) {
    apply_dropout(call.shape.type, y, dropped, first_element(call), y, own_elements(call));
  }
}

void Layer::add_stream(const Call& call, const void* d_stream, void* d) const {
  add_residual(call.shape.type, d, d_stream, {}, 0, d, own_elements(call));
}

void Layer::run(const Call& call, Forward forward) const {
  const Shape& shape = call.shape;
  const Parts parts = call.parts;
  const Rows own = own_rows(call);
  Stream& stream = forward.stream;
  // Outside training the residual stream crosses calls where ranks exchange what is between them.
  if (shape.mode != Mode::train && call.saved_of(norm_2) != nullptr) stream.residual = call.saved_of(norm_2);
  void *first = call.port_or(normed_1, forward.normed), *second = call.port_or(normed_2, forward.normed);
  void *from_attention = call.port_or(attended, stream.residual), *from_mlp = call.port_or(projected, call.output);
  // A product can add where what it adds to stays in the run.
  const bool add_input = products_add(shape) && from_attention == stream.residual;
  const bool add_residual_stream = products_add(shape) && from_mlp == call.output;
  // What is added to. In a post-LN layer that is in the run where the product is, and else made again.
  const auto first_base = [&]() -> const void* {
    if (!post_norm_) return call.input;
    if (from_attention == stream.residual) return own_place(call, first);
    first_norm(call, stream.residual, {});
    return stream.residual;
  };
  const auto second_base = [&]() -> const void* {
    if (!post_norm_) return stream.residual;
    if (from_mlp == call.output) return own_place(call, second);
    norm_.forward(call, second_norm_weight_, own.count, stream.residual, call.output, {});
    return call.output;
  };

  if (parts.has(norm_1)) {
    first_norm(call, own_place(call, first), call.finds(norm_1) ? Norm::Statistics{} : stream.first_norm);
  }
  if (parts.has(attention)) forward.attend(first, from_attention, add_input ? first_base() : nullptr);
  if (parts.has(norm_2)) {
    void* normed = own_place(call, second);
    if (call.finds(norm_2)) {
      norm_.forward(call, second_norm_weight_, own.count, stream.residual, normed, {});
    } else if (add_input) {
      norm_.forward(call, second_norm_weight_, own.count, stream.residual, normed, stream.second_norm);
    } else {
      norm_.forward_of_sum(call, second_norm_weight_, own.count, first_base(), own_place(call, from_attention),
                           forward.after_attention, first_element(call), stream.residual, normed, stream.second_norm);
    }
  }
  if (parts.has(hidden)) forward.hide(second);
  if (parts.has(projection)) forward.project(from_mlp, add_residual_stream ? second_base() : nullptr);
  if (parts.has(output) && !add_residual_stream) {
    const void* base = second_base();
    add_residual(shape.type, base, own_place(call, from_mlp), forward.after_mlp, first_element(call), call.output,
                 own_elements(call));
  }
}

void Layer::run(const Call& call, const Backward& backward) const {
  const Parts parts = call.parts;
  const auto held_of = [&](Part norm) { return reinterpret_cast<float*>(call.held_of(norm)); };
  if (call.half == Half::weight) {
    if (parts.has(norm_1)) norm_.write_held(call, first_norm_weight_, held_of(norm_1));
    if (parts.has(norm_2)) norm_.write_held(call, second_norm_weight_, held_of(norm_2));
    if (parts.has(projection)) backward.mlp(call.d_port_or(projected, backward.held_projected), nullptr);
    if (parts.has(attention)) backward.attend(call.d_port_or(attended, backward.held_attended), nullptr);
    return;
  }
  const Rows own = own_rows(call);
  const Stream& stream = backward.stream;
  const void *d_projected = call.d_port(projected), *d_attended = call.d_port(attended);
  void *d_normed_1 = call.d_port_or(normed_1, backward.d_normed),
       *d_normed_2 = call.d_port_or(normed_2, backward.d_normed);
  // Where the gradient of what a part has handed on goes.
  const auto place = [&](Port port, void* held) -> void* {
    return call.d_port(port) != nullptr ? own_place(call, call.d_port(port)) : held;
  };

  if (parts.has(output)) {
    d_projected =
        undrop(call, backward.after_mlp, call.d_output, place(projected, backward.held_projected), backward.of_mlp);
  }
  if (parts.has(projection)) backward.mlp(d_projected, d_normed_2);
  // From here on d_input holds the gradient of the residual stream between attention and MLP.
  if (parts.has(norm_2)) {
    void* d_normed = own_place(call, d_normed_2);
    if (post_norm_) add_stream(call, call.d_output, d_normed);
    norm_.backward(call, second_norm_weight_, own.count, stream.residual, d_normed, stream.second_norm,
                   post_norm_ ? nullptr : call.d_output, call.d_input, backward.scratch, held_of(norm_2));
    d_attended = undrop(call, backward.after_attention, call.d_input, place(attended, backward.held_attended),
                        backward.of_attention);
  }
  if (parts.has(attention)) backward.attend(d_attended, d_normed_1);
  if (parts.has(norm_1)) {
    void* d_normed = own_place(call, d_normed_1);
    if (post_norm_) add_stream(call, call.d_input, d_normed);
    if (first_norm_site_ && sizes_.dropout > 0) {
      apply_dropout(call.shape.type, d_normed, dropout(call, *first_norm_site_), first_element(call), d_normed,
                    own_elements(call));
    }
    norm_.backward(call, first_norm_weight_, own.count, call.input, d_normed, stream.first_norm,
                   post_norm_ ? nullptr : call.d_input, call.d_input, backward.scratch, held_of(norm_1));
  }
}

const void* Layer::undrop(const Call& call, const Dropout& dropout, const void* d, void* to, void* buffer) const {
  const DType type = call.shape.type;
  const int64_t n = own_elements(call);
  if (dropout.probability == 0) {
    if (to == nullptr) return d;
    core::copy_bytes(to, d, static_cast<size_t>(n) * core::dtype_size(type));
    return to;
  }
  void* dropped = to == nullptr ? buffer : to;
  apply_dropout(type, d, dropout, first_element(call), dropped, n);
  return dropped;
}

const void* Layer::normed_again(const Call& call, Port port, const Stream& stream, void* space) const {
  if (call.port(port) != nullptr || call.half == Half::weight || shares_rows()) return call.port_or(port, space);
  if (port == normed_1) {
    first_norm(call, space, {});
  } else {
    norm_.forward(call, second_norm_weight_, own_rows(call).count, stream.residual, space, {});
  }
  return space;
}

}  // namespace zrt::models
