#include "runtime/train/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/not_finite.h"
#include "runtime/train/share_text.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;
using checkpoint::Json;
using checkpoint::Run;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns what `work` throws for a reason of this rank's own, as text.
template <class Work>
std::string error_of(Work work) {
  try {
    work();
    return "";
  } catch (const core::CommError&) {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Messages may hold anything that file names do.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

struct Checkpointer::Flight {
  checkpoint::Manifest manifest;
  SaveOutcome outcome;
  double start = 0;
  RankThreads threads;  // one that throws: the group is broken
};

Checkpointer::Checkpointer(Session& session, CheckpointOptions options, std::function<void(const SaveOutcome&)> report)
    : session_(session), options_(std::move(options)), report_(std::move(report)) {
  group_ = session.transport().make_group("save", session.timeout());
}

Checkpointer::~Checkpointer() {
  if (!flight_) return;
  // Training has failed, so the save cannot end well. Its ranks would wait for each other up to the time-out.
  for (const auto& rank : group_) rank->abort("the run has failed while this checkpoint was being saved");
  try {
    flight_->threads.join(session_.grace(), session_.stuck());
  } catch (...) {
  }
}

void Checkpointer::save(const checkpoint::Manifest& manifest) {
  wait();
  flight_ = std::make_unique<Flight>();
  Flight& flight = *flight_;
  flight.manifest = manifest;
  flight.outcome.step = manifest.step;
  flight.start = now_seconds();
  if (options_.background) {
    session_.run("save", session_.executor(0).control().inputs);
  } else {
    session_.finish_updates();
  }
  for (size_t local = 0; local < group_.size(); ++local) {
    flight.threads.start([this, local, &flight] { write(local, flight); });
  }
  flight.outcome.stall_seconds = now_seconds() - flight.start;
  if (!options_.background) wait();
}

void Checkpointer::write(size_t local, Flight& flight) {
  comm::Communicator& group = *group_[local];
  const int rank = group.rank();
  // Training stands still where copies are not what is read, so that nobody else uses the file.
  std::optional<offload::ExtentReader> in_file;
  if (offload::BlockFile* file = session_.file(static_cast<int>(local))) in_file.emplace(*file);
  offload::ExtentReader* reader = in_file ? &*in_file : nullptr;
  const std::vector<Run> weights = this->weights(local, reader), states = this->states(local, reader);

  // Disks may take longer than a collective, but not for ever.
  const auto on_all = [&](const std::string& label, const std::function<std::string()>& work) {
    return gather_results(group, work, session_.timeout() / 4, 10 * session_.timeout(), label);
  };

  const LookAt kept = options_.background ? LookAt::copies : LookAt::states;
  const auto look = [&] {
    std::string found;
    std::string failure = error_of([&] { found = to_text(not_finite_on_rank(session_, local, kept)); });
    if (!failure.empty()) failure = fmt::format("rank {}: {}", rank, failure);
    return dump(Json{{"error", failure}, {"found", found}});
  };
  std::optional<NotFinite> bad;
  std::string unread;
  for (const std::string& text : on_all("values", look)) {
    const Json json = Json::parse(text);
    if (unread.empty()) unread = json["error"].get<std::string>();
    take_first(bad, json["found"].get<std::string>());
  }
  if (bad || !unread.empty()) {
    if (local != 0) return;
    if (bad) flight.outcome.not_finite = bad->text;
    flight.outcome.error = bad ? bad->text : unread;
    return;
  }

  // Room for all before anybody writes.
  const uint64_t own = checkpoint::shard_bytes(weights) + checkpoint::shard_bytes(states);
  uint64_t needed = 1 << 16;  // manifest, folders
  for (const std::string& bytes : gather_texts(group, std::to_string(own), "bytes to save"))
    needed += std::stoull(bytes);
  const auto from_first = [&](const std::string& label, const std::function<Json()>& work) {
    const auto text = [&] { return rank == 0 ? dump(work()) : ""; };
    return Json::parse(on_all(label, text).front());
  };
  Json verdict = from_first("room", [&] {
    fs::path folder;
    const std::string error = error_of([&] {
      const fs::path store = options_.store();
      checkpoint::make_store(store);
      const uint64_t free = core::free_bytes(store);
      if (free < needed) {
        throw core::DataError(
            fmt::format("{} needs {} bytes ({}) but {} ({}) are free; make room, or lower "
                        "run.keep_last",
                        store.string(), needed, core::format_bytes(needed), free, core::format_bytes(free)));
      }
      folder = checkpoint::begin_checkpoint(store, flight.manifest.step);
    });
    return Json{{"error", error}, {"folder", folder.string()}};
  });
  std::string error = verdict["error"].get<std::string>();
  fs::path folder = verdict["folder"].get<std::string>();

  const auto write_files = [&] {
    Json files = Json::object();
    std::string failure = error_of([&] {
      for (const auto& [name, file] : checkpoint::write_shard(folder, rank, weights)) {
        files[name] = {file.bytes, file.xxh3};
      }
      for (const auto& [name, file] : checkpoint::write_shard(folder / "optimizer", rank, states)) {
        files["optimizer/" + name] = {file.bytes, file.xxh3};
      }
    });
    if (!failure.empty()) failure = fmt::format("rank {}: {} (the checkpoint needs {} bytes)", rank, failure, needed);
    return dump(Json{{"error", failure}, {"files", files}});
  };
  if (error.empty()) {
    for (const std::string& text : on_all("files written", write_files)) {
      const Json json = Json::parse(text);
      if (error.empty()) error = json["error"].get<std::string>();
      if (rank != 0) continue;
      for (const auto& [name, file] : json["files"].items()) {
        flight.manifest.files[name] = {file[0].get<uint64_t>(), file[1].get<std::string>()};
      }
    }
  }

  verdict = from_first("commit", [&] {
    fs::path target;
    if (error.empty()) {
      error = error_of([&] {
        const fs::path store = options_.store();
        folder = store / folder.filename();
        target = store / fmt::format("step_{}", flight.manifest.step);
        checkpoint::commit_checkpoint(store, folder, flight.manifest);
        checkpoint::verify_checkpoint(target);
        checkpoint::prune_checkpoints(store, flight.manifest.step, options_.keep_last, options_.keep_every);
      });
    }
    uint64_t written = 0;
    for (const auto& [name, file] : flight.manifest.files) written += file.bytes;
    std::error_code ignored;
    if (!error.empty() && !folder.empty()) fs::remove_all(folder, ignored);
    return Json{{"error", error}, {"folder", target.string()}, {"bytes", written}};
  });
  if (local != 0) return;
  flight.outcome.error = verdict["error"].get<std::string>();
  flight.outcome.bytes = verdict["bytes"].get<uint64_t>();
  flight.outcome.folder = verdict["folder"].get<std::string>();
  flight.outcome.write_seconds = now_seconds() - flight.start;
}

bool Checkpointer::busy() const {
  return flight_ && flight_->threads.running();
}

void Checkpointer::poll() {
  if (flight_ && !busy()) wait();
}

void Checkpointer::wait() {
  if (!flight_) return;
  const double start = now_seconds();
  const auto errors = flight_->threads.join(session_.grace(), session_.stuck());
  const std::unique_ptr<Flight> flight = std::move(flight_);
  flight->outcome.stall_seconds += now_seconds() - start;
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  if (report_) report_(flight->outcome);
}

}  // namespace zrt::runtime
