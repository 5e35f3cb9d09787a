// The lives of a run. Most have one. With pseudo_to_real a run begins with layers that share parameters, and is
// delinked at a step: it saves a checkpoint of the shared layers, from which a second life goes on with layers of their
// own. Whatever ends the run in between, the checkpoint is that of one life or of the other.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "models/model.h"
#include "runtime/config/config.h"
#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime {

// The model of a first life. Throws ConfigError for groups that do not fit, and for a pattern of
// pseudo_to_real.private that names no parameter of a layer.
models::Model with_shared_layers(const models::Model& model, const PseudoToReal& rules);

struct RunLife {
  models::Model model;
  std::optional<models::Sharing> sharing;  // of the first life
  int64_t until = 0;                       // the step that it ends with
  int64_t later_samples = 0;               // what lives behind it read
  std::optional<int64_t> delinked_at;      // of the second one: the last step of the first
};

// Notices that the loss falls no more: its mean over one window of steps is not below that of the window before by the
// share that the configuration asks for. What it knows goes into checkpoints.
class Plateau {
 public:
  Plateau(const PlateauRule& rule, const checkpoint::Json& before);  // `before`: json() of the run so far, or null
  bool reached(double loss);                                         // takes the loss of one more step
  checkpoint::Json json() const;

 private:
  PlateauRule rule_;
  double sum_ = 0;
  int64_t steps_ = 0;
  std::optional<double> before_;
};

// The life that goes on from a checkpoint; null: from the start. Throws ConfigError for one that no life of the run
// made.
RunLife life_of(const Config& config, const models::Model& model, const checkpoint::Reader* resumed);

// Makes the configuration of the second life: that of the run, which goes on from its folder.
Config after_delink(const Config& config);

// Returns the factor of the learning rate of the step behind `step`.
double rate_factor(const PseudoToReal& rules, const RunLife& life, int64_t step);

// Keys of Manifest::made_by.
inline constexpr const char *delink_due = "delink_due", *delinked_at = "delinked_at", *plateau = "plateau";

}  // namespace zrt::runtime
