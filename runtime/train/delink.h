// From layers that share parameters to layers of their own: what a run reads when it delinks, and the same for a
// checkpoint that no run has open.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "runtime/config/config.h"
#include "runtime/train/checkpoint/copy.h"
#include "runtime/train/checkpoint/reader.h"

namespace zrt::runtime {

// Reads elements of a tensor as delinked layers go on with it. From a checkpoint of layers that share nothing it reads
// what is there.
void read_delinked(const checkpoint::Reader& reader, StatesAtDelink how, const std::string& tensor, int64_t begin,
                   std::span<float> out);

// Makes the configuration of a run that goes on with delinked layers and has never heard of shared ones.
Config without_sharing(const Config& config);

struct Delink {
  StatesAtDelink states = StatesAtDelink::copy;
  std::string resolved;  // config.resolved.json of the new run; "": it gets none
  std::function<void(uint64_t done, uint64_t bytes)> progress = nullptr;
};
// Throws DataError for a checkpoint whose layers share no parameters, and where the folder `out` exists.
void require_delinkable(const checkpoint::Reader& shared, const std::filesystem::path& out);
// Makes the folder `out` of a run whose one checkpoint is `shared` with delinked layers. A run without pseudo_to_real
// that goes on from it takes the same steps as one that would have delinked there. The folder appears under its name
// when all of it is on disk. Returns that of the checkpoint. Throws DataError, for what require_delinkable and
// checkpoint::require_room refuse, too.
std::filesystem::path delink_checkpoint(const checkpoint::Reader& shared, const Delink& delink,
                                        const std::filesystem::path& out);

}  // namespace zrt::runtime
