#include "core/device.h"
#include "models/common/layer.h"

namespace zrt::models {

Dropout Layer::dropped(const Call& call, DropoutSite site) const {
  return dropout_number_ ? dropout(call, layer_dropout_site(*dropout_number_, site)) : Dropout{};
}

void Layer::first_norm(const Call& call, void* y, const Norm::Statistics& statistics) const {
  norm_.forward(call, first_norm_weight_, own_rows(call).count, call.input, y, statistics);
  const Dropout dropped = first_norm_site_ ? dropout(call, *first_norm_site_) : Dropout{};
  if (dropped.probability > 0) {
    apply_dropout(call.shape.type, y, dropped, first_element(call), y, own_elements(call));
  }
}

void Layer::norm_behind(const Call& call, size_t weight, const void* made, void* kept, void* y,
                        const Norm::Statistics& statistics) const {
  const int64_t rows = own_rows(call).count;
  if (call.shape.mode == Mode::train && made != kept) {
    core::copy_bytes(kept, made, static_cast<uint64_t>(rows) * row_bytes(call.shape));
  }
  norm_.forward(call, weight, rows, made, y, statistics);
}

void Layer::forward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const Parts parts = call.parts;
  const Rows own = own_rows(call);
  Kept kept{};
  if (shape.mode == Mode::train) kept = kept_in(call);
  BumpAllocator workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, shape, kept);
  // Outside training the residual stream crosses calls where ranks exchange what is between them.
  if (shape.mode != Mode::train && call.saved_of(norm_2) != nullptr) kept.residual = call.saved_of(norm_2);
  if (shape.mode != Mode::train && exchanges_) kept.routed = call.saved_of(route);
  void* const first = call.port_or(normed_1, kept.first_normed != nullptr ? kept.first_normed : space.normed);
  void* const second = call.port_or(normed_2, kept.second_normed != nullptr ? kept.second_normed : space.normed);
  void* from_attention = call.port_or(attended, norms_behind_ ? kept.from_attention : kept.residual);
  void* from_mlp = call.port_or(projected, norms_behind_ ? kept.from_mlp : call.output);
  // A product can add where what it adds to stays in the run.
  const bool add_input = products_add(shape) && from_attention == kept.residual;
  const bool add_residual_stream = products_add(shape) && from_mlp == call.output;
  // The product adds to this. A post-LN layer has it in the run of the product, or makes it again.
  const auto first_base = [&]() -> const void* {
    if (!post_norm_) return call.input;
    if (from_attention == kept.residual) return own_place(call, first);
    first_norm(call, kept.residual, {});
    return kept.residual;
  };
  const auto second_base = [&]() -> const void* {
    if (!post_norm_) return kept.residual;
    if (from_mlp == call.output) return own_place(call, second);
    norm_.forward(call, second_norm_weight_, own.count, kept.residual, call.output, {});
    return call.output;
  };
  const Mlp::Forward mlp{kept.routed, kept.mlp, space.mlp, space.scratch};

  if (parts.has(norm_1)) {
    first_norm(call, own_place(call, first), call.finds(norm_1) ? Norm::Statistics{} : kept.first_norm);
  }
  if (parts.has(attention)) {
    attention_.forward(call, kept.attention, space.attention, dropped(call, DropoutSite::attention), first,
                       from_attention, add_input ? first_base() : nullptr);
  }
  if (parts.has(norm_2)) {
    void* normed = own_place(call, second);
    if (call.finds(norm_2)) {
      norm_.forward(call, second_norm_weight_, own.count, kept.residual, normed, {});
    } else if (norms_behind_) {
      norm_behind(call, norms_behind_->attention, own_place(call, from_attention), kept.from_attention, kept.residual,
                  kept.attention_norm);
      norm_.forward_of_sum(call, second_norm_weight_, own.count, call.input, kept.residual, {}, 0, kept.residual,
                           normed, kept.second_norm);
    } else if (add_input) {
      norm_.forward(call, second_norm_weight_, own.count, kept.residual, normed, kept.second_norm);
    } else {
      norm_.forward_of_sum(call, second_norm_weight_, own.count, first_base(), own_place(call, from_attention),
                           dropped(call, DropoutSite::attention_output), first_element(call), kept.residual, normed,
                           kept.second_norm);
    }
  }
  const auto base_of_mlp = [&] { return add_residual_stream ? second_base() : nullptr; };
  if (parts.has(route)) mlp_->route(call, mlp, second);
  if (parts.has(hidden)) mlp_->expand(call, mlp, second);
  if (parts.has(projection)) mlp_->project(call, mlp, from_mlp, exchanges_ ? nullptr : base_of_mlp());
  if (parts.has(combine)) mlp_->combine(call, mlp, from_mlp, base_of_mlp());
  if (parts.has(output) && norms_behind_) {
    // A part that runs again for what it keeps has no output.
    void* const normed = call.output != nullptr ? call.output : space.behind;
    norm_behind(call, norms_behind_->mlp, own_place(call, from_mlp), kept.from_mlp, normed, kept.mlp_norm);
    if (call.output == nullptr) return;
    add_residual(shape.type, kept.residual, call.output, {}, 0, call.output, own_elements(call));
  } else if (parts.has(output) && !add_residual_stream) {
    const void* base = second_base();
    add_residual(shape.type, base, own_place(call, from_mlp), dropped(call, DropoutSite::mlp_output),
                 first_element(call), call.output, own_elements(call));
  }
}

}  // namespace zrt::models
