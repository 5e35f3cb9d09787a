// The rendezvous of ranks that are processes. Every rank sends its call to every other, so all see the same mismatch.
// Ranks of one machine then read each other's shared arenas in place, as threads do, and tell each other with tokens
// when they have; what cannot be read so (other machines, small structs outside the arenas) is sent in frames, and sums
// take one frame of each rank at a time: the same additions in the same order.
//
// A wait ends when its frames arrive, when the group is aborted, when a process of this machine ends, or at the
// deadline. Waiting ranks sleep on a bell in shared memory; with ranks on other machines they look at their channels
// again after 20 µs to 1 ms, because a thread that polls all the time takes a core from the computation. The first nap
// is half of what waits have lately taken: on a link that is busy with frames every wake-up too many costs as much as
// copying one.
//
// On GPUs (the place of the calling thread) a call is asynchronous, as between threads: the processes meet as ever, but
// work is queued on their streams. Each meeting a rank first lets its stream count up a word in shared memory, and then
// lets it wait for the words of the others; whoever waits does so for what has been queued before, so no order in which
// GPUs take streams up can deadlock. All sources must lie in shared arenas of GPUs of this machine.
#pragma once
#include <deque>
#include <mutex>

#include "comm/portions.h"
#include "comm/process/arenas.h"
#include "comm/process/channel.h"
#include "comm/process/peer_watch.h"
#include "comm/process/segment.h"
#include "comm/process/stream_wait.h"
#include "comm/process/wire.h"
#include "comm/rendezvous.h"

namespace zrt::comm {

// A rank of the group, as this process sees it.
struct Peer {
  int member = -1;                   // its place in this machine's segment; -1 for ranks of other machines
  int pid = 0;                       // on this machine
  std::unique_ptr<Channel> channel;  // null for the rank itself
};

// Says where a rank stands among the processes.
struct Membership {
  std::string group;
  int rank = 0;
  std::chrono::milliseconds timeout{};
  std::vector<Peer> peers;  // by rank, this one included
  std::shared_ptr<Segment> segment;
  SharedArenas* arenas = nullptr;
  // The segment of all groups of the run says who waits in any of them. Null: this group is the only one.
  std::shared_ptr<Segment> job = nullptr;
};

class ProcessRendezvous final : public Rendezvous {
 public:
  explicit ProcessRendezvous(Membership membership);

  int size() const override { return static_cast<int>(membership_.peers.size()); }
  const std::string& group() const override { return membership_.group; }
  void open(int rank, const std::function<Traffic(CollectiveCall&)>& fill) override;
  void work(int rank, int phase) override;
  void close(int rank) override;
  [[noreturn]] void fail(int rank, const std::string& reason) override;
  void abort(const std::string& reason) override;
  std::string reason() override;
  Counters counters(int rank) const override;
  std::vector<FlightRecord> flight_records(int rank) const override;
  std::string own_calls() const;  // this rank's last, a line each
  // Ends the group where the process of a rank has ended, or where this rank's stream has waited for another one longer
  // than the time-out, and lets the streams go on that wait. One thread calls it now and then.
  void look_after_streams();

 private:
  struct Extent {
    FrameKind kind;
    const std::byte* data;
    uint64_t bytes;
  };
  // Holds what one other rank sends us and gets from us during a call.
  struct Exchange {
    std::vector<std::byte> encoded;  // its call, as far as it has arrived
    bool has_call = false, has_token = false;
    RemoteCall remote;
    std::deque<Extent> out;
  };
  using Ready = std::function<bool()>;
  using Awaited = std::function<bool(int rank)>;

  bool shares(int rank) const;              // its sources lie in shared arenas
  bool streams(int from, int to) const;     // `to` cannot read `from`'s sources in place
  bool reads_in_place(int a, int b) const;  // one of the two reads the other's sources
  void push_frames();
  bool take_call(int rank);
  bool take_token(int rank);
  std::optional<Frame> arrived(int rank, FrameKind kind);
  void exchange_tokens();
  void mark();
  void follow();
  void move_portion(const Portion& portion);
  void await(const Ready& ready, const Awaited& awaited);
  void look_for_aborts();
  std::vector<int> missing(const Awaited& awaited, bool& certain) const;
  std::string timeout_report(const std::vector<int>& missing) const;
  std::string last_calls() const;
  std::string last_calls_here() const;  // of this machine's ranks
  void take_abort(const Frame& frame);
  [[noreturn]] void leave();
  void send_aborts(const std::string& reason);
  void end_call();
  void end_with_ended();
  void end_with_standing();
  void end_here(const std::string& reason);
  std::vector<int> behind() const;

  Membership membership_;
  const int member_;
  StreamWait stream_wait_, standing_;  // of look_after_streams(): for any rank; for one that does not wait itself
  bool has_remote_ = false;
  int64_t usual_wait_ = 0;  // nanoseconds, of waits that had to sleep
  PeerWatch watch_;
  mutable std::mutex mutex_;  // guards in_call_, the recorder and, outside calls, the channels
  bool in_call_ = false, aborts_sent_ = false;
  uint32_t reached_ = 0;        // meetings on a GPU so far, the same for all ranks of the group
  uint64_t between_hosts_ = 0;  // bytes of the open call
  FlightRecorder recorder_;
  CollectiveCall own_;
  std::vector<std::byte> encoded_;
  std::vector<Exchange> exchanges_;           // by rank
  std::vector<const CollectiveCall*> calls_;  // by rank
};

}  // namespace zrt::comm
