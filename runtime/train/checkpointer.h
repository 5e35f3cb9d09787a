// Saves a running session. What a checkpoint holds is copied first, by the program "save"; threads of the local ranks
// then write it beside training. Without that program they write what lies in the tiers while training stands still;
// what is resident in a file is read a few MiB at a time. All ranks succeed or nobody commits.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "offload/extent_reader.h"
#include "runtime/engine/session.h"
#include "runtime/train/checkpoint/manifest.h"
#include "runtime/train/checkpoint/shard.h"

namespace zrt::runtime {

struct CheckpointOptions {
  std::function<std::filesystem::path()> store;  // RUN/checkpoints, where it lies when a save begins or ends
  int64_t keep_last = 2, keep_every = 0;
  // Write from copies in the host tier while training goes on (the session needs the program "save"). Otherwise save()
  // returns when the checkpoint is on disk.
  bool background = false;
  // Says which frozen weights need not be saved, since they lie elsewhere. Null: all are saved.
  std::function<bool(const std::string& parameter)> lies_elsewhere = nullptr;
};

// The outcome of a save, alike in all processes.
struct SaveOutcome {
  int64_t step = 0;
  std::string folder, error;  // error: "" when it was committed
  std::string not_finite;     // NotFinite::text, where that is the error
  uint64_t bytes = 0;
  double write_seconds = 0;  // from the copy to the commit
  double stall_seconds = 0;  // training stood still
};

class Checkpointer {
 public:
  // `report` is called on the thread that calls the methods below. The session must outlive the checkpointer.
  // Collective over processes, as are save() and wait().
  Checkpointer(Session& session, CheckpointOptions options, std::function<void(const SaveOutcome&)> report);
  ~Checkpointer();

  // Starts a save between two programs; an earlier one is waited for. `manifest` lacks only its files. A failure is
  // reported, not thrown; a CommError of the ranks' rendezvous is thrown by the next call.
  void save(const checkpoint::Manifest& manifest);
  bool busy() const;  // a save is being written
  void poll();        // reports a save that has ended
  void wait();        // until no save is in flight

 private:
  struct Flight;
  void write(size_t local, Flight& flight);
  // `file` gives out what this rank has in its file; it must outlive the runs.
  std::vector<checkpoint::Run> weights(size_t local, offload::ExtentReader* file) const;
  std::vector<checkpoint::Run> states(size_t local, offload::ExtentReader* file) const;
  checkpoint::Run place(size_t local, size_t unit, size_t source, offload::ExtentReader* file) const;

  Session& session_;
  CheckpointOptions options_;
  std::function<void(const SaveOutcome&)> report_;
  std::vector<std::unique_ptr<comm::Communicator>> group_;
  std::unique_ptr<Flight> flight_;
};

}  // namespace zrt::runtime
