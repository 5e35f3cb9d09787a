// A rank's ops work with this, besides the program: its communicators, its arena and the doors to the outside.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "offload/block_file.h"
#include "offload/paced_link.h"
#include "optimizer/loss_scale.h"
#include "runtime/data/sample_rows.h"
#include "runtime/program/block_plan.h"
#include "runtime/program/control.h"

namespace zrt::runtime {

class Aliases;  // aliases.h

// The logical name of a state: "exp_avg.h.0.ln_1.weight".
inline std::string state_name(const std::string& kind, const std::string& parameter) {
  return kind + "." + parameter;
}

// Host memory in which the `load` program holds a part of a unit on its way, at most; what `Rank::load` needs to fill
// it comes on top.
inline constexpr uint64_t load_buffer_bytes = 1 << 19;
// Elements of such a part, which is there as fp32 and in the form that it is kept in, no larger.
inline constexpr int64_t load_chunk = load_buffer_bytes / 2 / sizeof(float);

struct Rank {
  int number = 0;  // in the run
  int data = 0;    // among the data-parallel ranks of its stage
  int tensor = 0;  // among the ranks that share its work
  int expert = 0;  // among the ranks that each have other experts
  const Layout* layout = nullptr;
  std::span<const BlockPlan> blocks;        // of the layout
  std::vector<comm::Communicator*> groups;  // by GroupId; null where no op communicates
  optimizer::LossScaleParams loss_scale;
  double clip = 0;  // largest gradient norm; 0 for none
  uint64_t seed = 0;
  offload::BlockFile* file = nullptr;                 // the NVMe tier; null where nothing is resident there
  offload::PacedLink *up = nullptr, *down = nullptr;  // to the device tier and from it
  const Control* control = nullptr;                   // in the arena; set by the executor

  // Fills micro_batch × sequence tokens, targets and, unless they are null, positions of one microbatch of the current
  // step. A negative target is not counted. Targets are null in decoding. Called on the to_device lane.
  std::function<void(uint32_t microbatch, const data::SampleRows& to)> batch;
  // Fills elements [begin, begin + out.size()) of a logical tensor, for the `load` program: a parameter, by its name,
  // or with `loads_states` a state of the optimizer, by state_name() of its kind and parameter.
  std::function<void(const std::string& tensor, int64_t begin, std::span<float> out)> load;
  bool loads_states = false;
  // Says which parameters what is loaded does not have, so that `load` makes their initial values: adapters of a model
  // that had none. Null: there are none.
  std::function<bool(const std::string& parameter)> begins_anew;
  // For the `load` program alone: what of the NVMe tier has equal contents; null where nothing has.
  std::shared_ptr<const Aliases> aliases;
  // Takes the logical fp32 weights of a unit's parameters, whole; for the `export` program.
  std::function<void(const optimizer::Unit& unit, const optimizer::UnitParam& param, const float* weights)>
      export_param;
  // Whole tensors of which an export has told some pieces, by UnitParam::number.
  std::shared_ptr<std::map<uint32_t, std::vector<float>>> exported =
      std::make_shared<std::map<uint32_t, std::vector<float>>>();
};

}  // namespace zrt::runtime
