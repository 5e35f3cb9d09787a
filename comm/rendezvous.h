// The ranks of a group meet here: they publish and compare their calls, and move the portions. One implementation has
// all ranks as threads, the other one rank per process.
//
// A call is: open → work of each phase → close.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/flight_recorder.h"

namespace zrt::comm {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual int size() const = 0;
  virtual const std::string& group() const = 0;

  // Publishes the call that `fill` writes, with what it will receive, and waits for the others'. Afterwards every call
  // is known to match. Throws CommError.
  struct Traffic {
    uint64_t elements = 0, bytes = 0;
  };
  virtual void open(int rank, const std::function<Traffic(CollectiveCall&)>& fill) = 0;
  // False where ranks do not learn each other's `used`: then whole blocks move, and are counted.
  virtual bool moves_used() const { return true; }
  virtual void work(int rank, int phase) = 0;  // the rank's portions of the phase
  virtual void close(int rank) = 0;            // waits until nobody reads the rank's buffers; counts the call
  // Ends the call of a member whose work or close threw: the others fail with `reason`.
  [[noreturn]] virtual void fail(int rank, const std::string& reason) = 0;

  virtual void abort(const std::string& reason) = 0;
  // Says why the group was ended; empty as long as it lives. Any thread.
  virtual std::string reason() = 0;
  virtual Counters counters(int rank) const = 0;
  virtual std::vector<FlightRecord> flight_records(int rank) const = 0;
};

// The communicator of one rank.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Rendezvous> rendezvous, int rank);

// Parts of messages that both implementations print.
std::string busy_text(const std::string& group, int rank, const CollectiveCall& running);
inline constexpr std::string_view timed_out = " timed out after ";  // in every such report
std::string timeout_text(const std::string& group, int rank, int size, const CollectiveCall& call, uint64_t sequence,
                         std::chrono::milliseconds timeout, const std::vector<int>& missing);

}  // namespace zrt::comm
