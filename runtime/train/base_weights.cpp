#include "runtime/train/base_weights.h"

#include <filesystem>
#include <set>

#include "runtime/train/checkpoint/adapters.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;
using checkpoint::Json;

// Says that the checkpoint is one of the run's own, which come and go.
bool is_own(const Config& config, const checkpoint::Reader& reader) {
  return fs::weakly_canonical(reader.folder()).parent_path() ==
         fs::weakly_canonical(fs::path(config.run.out) / "checkpoints");
}

}  // namespace

BaseWeights base_weights(const Config& config, const checkpoint::Reader* resumed) {
  if (config.model.adapters.rank == 0 || !resumed) return {};
  const Json& made_by = resumed->manifest().made_by;
  const bool goes_on = !resumed->plain() && made_by.is_object() && made_by.contains(checkpoint::base_key);
  const bool has_base = goes_on || (resumed->plain() && !resumed->base().empty());
  if (!has_base && !resumed->plain() && is_own(config, *resumed)) return {};
  const fs::path& folder = has_base ? resumed->base() : resumed->folder();
  std::set<std::string> kept;  // all others lie in the base as they are
  if (has_base) kept = resumed->own_weights();
  return {goes_on ? made_by[checkpoint::base_key] : checkpoint::base_json(folder),
          [kept](const std::string& parameter) {
            return !kept.contains(parameter) && !checkpoint::MergedWeights::is_adapter(parameter);
          }};
}

}  // namespace zrt::runtime
