// Values that are NaN or infinite where a run keeps its states, or would be in the type that it computes in: which is
// the first, on whichever rank it lies.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "runtime/engine/session.h"

namespace zrt::runtime {

// One such value. The first of several is of the first kind, and among those of the first parameter, and so on.
struct NotFinite {
  int64_t kind = 0;     // 0: weights, 1: states of the optimizer, 2: gradients
  int64_t number = 0;   // of the parameter, in canonical order
  int64_t element = 0;  // of the whole tensor
  int rank = 0;
  std::string text;  // "the weight 'h.0.ln_1.weight' of unit 'wte.weight' is NaN at element 7, on rank 1"
  auto place() const { return std::tie(kind, number, element, rank); }
};

enum class LookAt : uint8_t {
  states,    // weights and what the optimizer keeps
  copies,    // the same as the program "save" has copied it
  training,  // states, and the gradients of the step that was run last
};

// Finds the first on one local rank, in the part of the states that it saves. Call it between programs; for copies at
// any time.
std::optional<NotFinite> not_finite_on_rank(Session& session, size_t local, LookAt what);
// Finds the first on any rank, in every process. Collective, between programs.
std::optional<NotFinite> find_not_finite(Session& session, LookAt what);

// Ranks pass on what they found as a text: "" for nothing.
std::string to_text(const std::optional<NotFinite>& found);
void take_first(std::optional<NotFinite>& first, const std::string& text);

}  // namespace zrt::runtime
