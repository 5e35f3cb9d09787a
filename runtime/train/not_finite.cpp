#include "runtime/train/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/finite.h"
#include "offload/extent_reader.h"
#include "optimizer/exact_sum.h"

namespace zrt::runtime {
namespace {

constexpr int64_t chunk = optimizer::unit_alignment;  // of exact sums
constexpr int64_t window = core::form_block * 32;     // values that are looked at together

// The first of `count` values that is not finite in a type or, with `summed`, the largest of the first chunk whose
// squares have no sum; -1 for none.
int64_t first_bad(const float* values, int64_t count, core::DType type, bool summed) {
  if (!summed) return core::first_not_finite({values, static_cast<size_t>(count)}, type);
  const uint32_t infinite = core::first_infinite(type);
  constexpr uint32_t large = 0x55800000;  // 2^44: below it no chunk's sum reaches the limit
  for (int64_t at = 0; at < count; at += chunk) {
    const int64_t end = std::min(count, at + chunk);
    const uint32_t most = core::largest_magnitude({values + at, static_cast<size_t>(end - at)});
    if (most >= infinite) {
      while (core::magnitude(values[at]) < infinite) ++at;
      return at;
    }
    if (most < large) continue;
    double squares = 0;
    for (int64_t i = at; i < end; ++i) squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    if (squares < optimizer::ExactSum::chunk_limit) continue;
    while (core::magnitude(values[at]) != most) ++at;
    return at;
  }
  return -1;
}

struct Bad {
  int64_t at;
  float value;
};

// Finds the first bad one of `count` values; reads as many at a time as a window holds.
template <class Read>
std::optional<Bad> scan(int64_t count, core::DType type, bool summed, std::vector<float>& values, const Read& read) {
  for (int64_t first = 0; first < count; first += window) {
    const int64_t here = std::min(window, count - first);
    values.resize(static_cast<size_t>(here));
    read(first, here, values.data());
    const int64_t at = first_bad(values.data(), here, type, summed);
    if (at >= 0) return Bad{first + at, values[static_cast<size_t>(at)]};
  }
  return std::nullopt;
}

// One rank's look at the units of its stage.
class Look {
 public:
  Look(Session& session, size_t local, LookAt what)
      : session_(session),
        local_(static_cast<int>(local)),
        stage_(session.stage(local_)),
        layout_(stage_.layout),
        what_(what),
        number_(session.first_local() + local_),
        tensor_rank_(layout_.mesh.place(Axis::tensor, number_)),
        expert_rank_(layout_.mesh.place(Axis::expert, number_)) {
    if (offload::BlockFile* file = session.file(local_)) file_.emplace(*file);
  }

  std::optional<NotFinite> first() {
    for (size_t u = 0; u < layout_.units.units.size(); ++u) {
      const optimizer::Unit& unit = layout_.units.units[u];
      // Other ranks count these, as in a checkpoint.
      if (unit.counted_elsewhere || (!unit.sliced() && tensor_rank_ > 0)) continue;
      look_at(u, unit);
    }
    return std::move(first_);
  }

 private:
  void look_at(size_t u, const optimizer::Unit& unit) {
    const StateBuffers& state = stage_.state;
    const optimizer::SavedPart piece = saved_part(unit, layout_.mesh, number_);
    const bool master = state.master[u] != no_buffer, copies = what_ == LookAt::copies;
    const BufferId weight = copies ? state.snapshot[u][0] : state.logical(u);
    look(unit, piece, 0, "weight", weight, master ? core::Form::f32 : layout_.weight_form(unit), layout_.compute,
         copies ? 0 : piece.offset(master ? unit.held.states : unit.held.weights));
    if (!state.states[u].empty()) look_at_states(u, unit, piece);
    if (what_ != LookAt::training || !unit.trained) return;
    look(unit, piece, 2, "gradient", state.grad[u], core::form_of(layout_.grad), layout_.grad,
         piece.offset(unit.held.grads));
  }

  // Bytes of a buffer, wherever it lies, into bytes_.
  const std::byte* read(BufferId id, uint64_t skip, uint64_t count) {
    const Buffer& buffer = stage_.set.buffers[id];
    bytes_.resize(count);
    if (buffer.tier == core::Tier::nvme) {
      file_->read(buffer.offset, buffer.padded(), skip, bytes_.data(), count);
    } else {
      const std::byte* from = session_.arena(local_, buffer.tier)->data() + buffer.offset + skip;
      core::read_bytes(bytes_.data(), from, count,
                       buffer.tier == core::Tier::device ? layout_.device : core::DeviceKind::cpu);
    }
    return bytes_.data();
  }

  // True if the bytes are an alias; the buffer that owns them is looked at itself.
  bool is_alias(BufferId id, uint64_t skip, uint64_t count) const {
    const Buffer& buffer = stage_.set.buffers[id];
    return buffer.tier == core::Tier::nvme &&
           session_.file(local_)->is_alias(buffer.offset, buffer.padded(), skip, count);
  }

  // Calls look(begin, end) for what a piece has of elements [first, first + count) of a unit: not of the padding.
  template <class Body>
  static void within(const optimizer::SavedPart& piece, int64_t first, int64_t count, const Body& look) {
    const int64_t begin = std::max(piece.begin, first), end = std::min(piece.begin + piece.count, first + count);
    if (begin < end) look(begin, end);
  }

  // `type`: whose numbers are finite.
  void look(const optimizer::Unit& unit, const optimizer::SavedPart& piece, int64_t kind, const std::string& what,
            BufferId buffer, core::Form form, core::DType type, int64_t skip) {
    for (const optimizer::UnitParam& place : unit.params) {
      within(piece, place.offset, place.param->elements(), [&](int64_t begin, int64_t end) {
        const int64_t at = skip + begin - piece.begin;
        if (is_alias(buffer, core::form_bytes(form, at), core::form_bytes(form, whole_blocks(form, end - begin))))
          return;
        const auto bad = scan(end - begin, type, kind == 2, values_, [&](int64_t first, int64_t n, float* out) {
          read_numbers(buffer, form, at + first, n, out);
        });
        if (bad) found(unit, kind, place, begin + bad->at - place.offset, "the " + what, bad->value);
      });
    }
  }

  static int64_t whole_blocks(core::Form form, int64_t n) {
    const int64_t block = core::form_alignment(form);
    return (n + block - 1) / block * block;
  }
  // From a number on that begins a block.
  void read_numbers(BufferId buffer, core::Form form, int64_t first, int64_t n, float* out) {
    const uint64_t bytes = core::form_bytes(form, whole_blocks(form, n));
    core::read_form(form, read(buffer, core::form_bytes(form, first), bytes), 0, n, out);
  }

  void look_at_states(size_t u, const optimizer::Unit& unit, const optimizer::SavedPart& own) {
    const auto kinds = layout_.optimizer->states(unit);
    for (size_t k = 0; k < kinds.size(); ++k) {
      const optimizer::UnitState& kind = kinds[k];
      const Axes same = stage_axes.without(unit.apart_axes());
      if (!kind.sharded && layout_.mesh.place(same, number_) > 0) continue;  // the first one looks
      const bool copies = what_ == LookAt::copies;
      const BufferId buffer = copies ? stage_.state.snapshot[u][k + 1] : stage_.state.states[u][k];
      const int64_t skip = copies || !kind.sharded ? 0 : own.offset(unit.held.states);
      const optimizer::SavedPart piece = kind.sharded ? own : optimizer::SavedPart{0, kind.elements, 0};
      const std::string what = fmt::format("the optimizer's state '{}' of", kind.kind);
      for (const optimizer::StateTensor& tensor : kind.tensors) {
        const int64_t count = kind.sharded ? tensor.param->param->elements() : tensor.elements();
        within(piece, tensor.offset, count, [&](int64_t begin, int64_t end) {
          const int64_t at = skip + begin - piece.begin, all = whole_blocks(kind.form, end - begin);
          if (is_alias(buffer, core::form_bytes(kind.form, at), core::form_bytes(kind.form, all))) return;
          const auto bad =
              scan(end - begin, core::DType::f32, false, values_,
                   [&](int64_t first, int64_t n, float* out) { read_numbers(buffer, kind.form, at + first, n, out); });
          if (bad) found(unit, 1, *tensor.param, begin + bad->at - tensor.offset, what, bad->value, kind.sharded);
        });
      }
    }
  }

  // `like_tensor`: elements are those of the part of the parameter that this rank has.
  void found(const optimizer::Unit& unit, int64_t kind, const optimizer::UnitParam& place, int64_t element,
             const std::string& what, float value, bool like_tensor = true) {
    NotFinite found;
    found.kind = kind, found.number = place.number_at(expert_rank_), found.rank = number_, found.element = element;
    if (like_tensor && place.param->slice) {
      models::for_each_piece(*place.param, tensor_rank_, element, element + 1, [&](const models::Piece& piece) {
        if (piece.whole >= 0) found.element = piece.whole;
      });
    }
    std::string note = core::not_finite_note(value, layout_.compute);
    if (kind != 0 && !note.empty()) note = "; the sum of such squares has no place in a norm";
    found.text =
        fmt::format("{} '{}' of unit '{}' is {} at element {}, on rank {}{}", what, place.param->name_at(expert_rank_),
                    unit.name, core::value_text(value), found.element, number_, note);
    if (!first_ || found.place() < first_->place()) first_ = std::move(found);
  }

  Session& session_;
  const int local_;
  const Compiled& stage_;
  const Layout& layout_;
  const LookAt what_;
  const int number_, tensor_rank_, expert_rank_;
  std::optional<NotFinite> first_;
  std::optional<offload::ExtentReader> file_;
  std::vector<std::byte> bytes_;
  std::vector<float> values_;
};

}  // namespace

std::optional<NotFinite> not_finite_on_rank(Session& session, size_t local, LookAt what) {
  return Look(session, local, what).first();
}

std::string to_text(const std::optional<NotFinite>& found) {
  if (!found) return "";
  return nlohmann::json::array({found->kind, found->number, found->element, found->rank, found->text})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void take_first(std::optional<NotFinite>& first, const std::string& text) {
  if (text.empty()) return;
  const nlohmann::json json = nlohmann::json::parse(text);
  NotFinite found;
  found.kind = json[0], found.number = json[1], found.element = json[2], found.rank = json[3], found.text = json[4];
  if (!first || found.place() < first->place()) first = std::move(found);
}

std::optional<NotFinite> find_not_finite(Session& session, LookAt what) {
  std::vector<std::string> texts(static_cast<size_t>(session.local_count()));
  session.on_all_ranks([&](size_t local) { texts[local] = to_text(not_finite_on_rank(session, local, what)); });
  std::optional<NotFinite> own, first;
  for (const std::string& text : texts) take_first(own, text);
  for (const std::string& text : session.transport().exchange(to_text(own), 10 * session.timeout())) {
    take_first(first, text);
  }
  return first;
}

}  // namespace zrt::runtime
