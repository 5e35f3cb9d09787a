#include "runtime/train/delink.h"

#include <fmt/format.h>

#include <exception>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/folder_lock.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/lives.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;
using checkpoint::Json;
using checkpoint::Manifest;
using checkpoint::Reader;

// Makes what a checkpoint of shared layers holds of a state into what a delinked layer gets.
void delink_state(const models::Sharing& sharing, StatesAtDelink how, const std::string& state,
                  std::span<float> values) {
  if (how == StatesAtDelink::copy) return;
  // A state's name is its kind, and behind a point the parameter's.
  const auto layers = static_cast<float>(models::sharers(sharing, state.substr(state.find('.') + 1)));
  if (layers == 1) return;
  const float divisor = state.starts_with("exp_avg_sq") ? layers * layers : layers;
  for (float& value : values) value = how == StatesAtDelink::reset ? 0 : value / divisor;
}

// Adds the names of all layers behind that of the one whose parameters they shared.
Json with_all_layers(const Json& params, const models::Sharing& sharing) {
  Json all = Json::array();
  for (const Json& param : params) {
    const std::string name = param.get<std::string>();
    const int64_t first = models::layer_of(name), layers = models::sharers(sharing, name);
    for (int64_t layer = first; layer < first + layers; ++layer) all.push_back(models::with_layer(name, layer));
  }
  return all;
}

Manifest delinked_manifest(const Reader& shared) {
  Manifest manifest = shared.manifest();
  Json made_by = Json::object();
  for (const auto& [key, value] : shared.manifest().made_by.items()) {
    if (key != checkpoint::shared_layers && key != delink_due && key != plateau) made_by[key] = value;
  }
  made_by[delinked_at] = manifest.step;
  if (made_by.contains("optimizers")) {
    for (Json& params : made_by["optimizers"]) params = with_all_layers(params, *shared.sharing());
  }
  manifest.made_by = std::move(made_by);
  return manifest;
}

fs::path named(const fs::path& out) {
  return out.has_filename() ? out : out.parent_path();  // "name/"
}

}  // namespace

void read_delinked(const Reader& reader, StatesAtDelink how, const std::string& tensor, int64_t begin,
                   std::span<float> out) {
  reader.read(tensor, begin, out);
  if (reader.sharing() && !reader.weights().has(tensor)) delink_state(*reader.sharing(), how, tensor, out);
}

Config without_sharing(const Config& config) {
  const Config later = config.pseudo_to_real ? after_delink(config) : config;
  return reconfigured(later, {}, config.ranks, {"pseudo_to_real", "run.resume", "run.load_module_only"});
}

void require_delinkable(const Reader& shared, const fs::path& out) {
  if (!shared.sharing()) {
    throw core::DataError(fmt::format(
        "{}: its layers share no parameters, so there is nothing to delink: runs without pseudo_to_real go on from it",
        shared.folder().string()));
  }
  if (named(out).empty()) throw core::DataError("the folder of the new run has no name");
  if (fs::exists(out)) throw core::DataError(fmt::format("{}: exists already; name a new folder", out.string()));
}

fs::path delink_checkpoint(const Reader& shared, const Delink& delink, const fs::path& folder) {
  require_delinkable(shared, folder);
  const fs::path out = named(folder);
  checkpoint::require_room(out, checkpoint::plan_copy(shared));
  checkpoint::CopyHooks hooks;
  hooks.change = [&](const std::string& tensor, std::span<float> values) {
    if (!shared.weights().has(tensor)) delink_state(*shared.sharing(), delink.states, tensor, values);
  };
  hooks.progress = delink.progress;
  const fs::path temporary = out.parent_path() / ("." + out.filename().string() + ".delink.tmp");
  std::optional<core::FolderLock> lock;  // none: another process may have the folder
  const auto clear = [&] {
    for (const fs::directory_entry& left : fs::directory_iterator(temporary)) {
      if (left.path().filename() != core::FolderLock::file_name()) fs::remove_all(left.path());
    }
  };
  try {
    lock.emplace(temporary);
    require_delinkable(shared, folder);  // another process may have finished just now
    clear();
    checkpoint::copy_checkpoint(shared, delinked_manifest(shared), temporary / "checkpoints", hooks);
    if (!delink.resolved.empty()) core::write_durably(temporary / "config.resolved.json", delink.resolved + "\n");
    core::rename_path(temporary, out);
    core::sync_folder(out.has_parent_path() ? out.parent_path() : ".");
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    try {
      if (lock) clear();
    } catch (const fs::filesystem_error&) {
      // The error that came first is the one to tell.
    }
    lock.reset();
    std::error_code ignored;
    fs::remove(temporary, ignored);  // if it is empty
    std::rethrow_exception(error);
  }
  return checkpoint::list_checkpoints(out / "checkpoints").front().folder;
}

}  // namespace zrt::runtime
