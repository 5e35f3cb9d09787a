// Reads the samples of the next step while one runs, so that a GPU does not wait for a disk. It keeps those of two
// steps, 8 bytes a token or 12 with positions, in memory that no plan counts. Steps read the same number of samples
// each, so that those of the last one tell which come.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/data/sample_source.h"

namespace zrt::runtime::data {

class ReadAhead final : public SampleSource {
 public:
  explicit ReadAhead(std::shared_ptr<const SampleSource> source);
  ~ReadAhead() override;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Says that a step begins whose samples are `step_samples` behind those of the last one. A thread then reads those of
  // the step behind it. What the last step was expected to read and did not is dropped.
  void begin_step(int64_t step_samples);

  int64_t size() const override { return source_->size(); }
  int64_t sequence() const override { return source_->sequence(); }
  // From memory where the sample was read ahead, else from the source. A sample that the thread could not read is read
  // again here, which throws what there is to throw.
  void read(int64_t sample, const SampleRows& to) const override;
  int64_t counted(int64_t sample) const override { return source_->counted(sample); }
  SampleOrigin origin(int64_t sample) const override { return source_->origin(sample); }
  std::vector<DatasetFacts> datasets() const override { return source_->datasets(); }

 private:
  void work();
  // A row has two or three for each token.
  size_t words(bool positions) const { return (positions ? 3 : 2) * static_cast<size_t>(sequence()); }

  std::shared_ptr<const SampleSource> source_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  mutable std::set<int64_t> read_;                 // in this step
  mutable bool positions_ = false;                 // who read last asked for them, and will again
  std::vector<int64_t> wanted_;                    // by the thread, the next one last
  std::map<int64_t, std::vector<int32_t>> ahead_;  // tokens, targets, perhaps positions; of this step and the next
  bool over_ = false;
  std::thread thread_;  // last: it uses all others
};

}  // namespace zrt::runtime::data
