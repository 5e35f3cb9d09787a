// Loading and importing hold in the host's memory what was planned for them, counted by every allocation that operator
// new makes.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <set>

#include "catch.h"
#include "core/error.h"
#include "core/file.h"
#include "models/hugging_face.h"
#include "runtime/config/config.h"
#include "runtime/train/checkpoint/copy.h"
#include "runtime/train/checkpoint/exchange.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_manifest.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::load_memory_test {
namespace {

std::atomic<int64_t> held_bytes, peak_bytes;

void* counted(size_t bytes) noexcept {
  void* memory = std::malloc(std::max<size_t>(bytes, 1));
  if (!memory) return nullptr;
  const auto usable = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t held = held_bytes += usable;
  int64_t peak = peak_bytes;
  while (held > peak && !peak_bytes.compare_exchange_weak(peak, held)) {
  }
  return memory;
}

void discount(void* memory) noexcept {
  if (memory) held_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

}  // namespace zrt::load_memory_test

void* operator new(size_t bytes) {
  if (void* memory = zrt::load_memory_test::counted(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return zrt::load_memory_test::counted(bytes);
}
void operator delete(void* memory) noexcept {
  zrt::load_memory_test::discount(memory);
}
void operator delete(void* memory, size_t) noexcept {
  zrt::load_memory_test::discount(memory);
}

namespace zrt::load_memory_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
namespace fs = std::filesystem;

namespace {

// The most that was held at once since it was made, beyond what was held then.
class Peak {
 public:
  Peak() { peak_bytes = start_; }
  uint64_t bytes() const { return static_cast<uint64_t>(peak_bytes - start_); }

 private:
  int64_t start_ = held_bytes;
};

Json section(int64_t layers, int64_t hidden, int64_t vocab) {
  return {{"type", "gpt2"}, {"layers", layers}, {"hidden", hidden}, {"heads", 1}, {"sequence", 8}, {"vocab", vocab}};
}

runtime::Config config_of(const Json& model) {
  return runtime::parse_config(Json{{"train_batch_size", 1}, {"model", model}}.dump(), "test", {}, 1);
}

// A folder of bf16 zeros, which take no room on the disk; all experts of a layer are in one tensor.
void write_folder(const fs::path& folder, const Json& model) {
  const runtime::Config config = config_of(model);
  const Json resolved = runtime::model_json(config);
  SafetensorsHeader header;
  const models::Model made = config.model.make();
  std::set<std::string> known;
  for (const auto& ref : made.canonical_params()) {
    const models::Param& param = made.blocks[ref.block]->params()[ref.index];
    const std::string name = models::hugging_face_name(model.at("type"), param.name, true);
    if (!known.insert(name).second) continue;
    const models::FusedTensor fused = models::fused_tensor(resolved, name);
    header.tensors.push_back({name, "BF16", fused.parts.empty() ? param.shape : fused.shape, 0, 0});
  }
  const std::string head = lay_out(header);
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << models::to_hugging_face(resolved, core::DType::bf16).dump();
  std::ofstream(folder / "model.safetensors", std::ios::binary) << head;
  fs::resize_file(folder / "model.safetensors", head.size() + header.tensors.back().end);
}

// Other bits everywhere, in place of the zeros.
void fill(const fs::path& file) {
  const uint64_t bytes = fs::file_size(file), begin = SafetensorsFile(file).header_bytes();
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(static_cast<std::streamoff>(begin));
  std::vector<uint32_t> part(1 << 16);
  for (uint64_t done = begin; done < bytes;) {
    for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<uint32_t>((done + i) * 2654435761u) & 0x7f7f7f7fu;
    const uint64_t count = std::min<uint64_t>(bytes - done, part.size() * sizeof(uint32_t));
    out.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(count));
    done += count;
  }
}

bool same_weights(const Reader& a, const Reader& b) {
  if (a.weights().names() != b.weights().names()) return false;
  for (const std::string& name : a.weights().names()) {
    const auto& shape = a.weights().shape(name);
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    std::vector<float> x(static_cast<size_t>(count)), y = x;
    a.read(name, 0, x);
    b.read(name, 0, y);
    if (b.weights().shape(name) != shape || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0)
      return false;
  }
  return true;
}

// Keeps what should not be written at all from filling the disk.
class SmallFiles {
 public:
  SmallFiles() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{1 << 20, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

uint64_t size_of(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

}  // namespace

TEST_CASE(
    "An import holds no more memory than it said, far less than its largest tensor, and as much disk as it said") {
  struct Sizes {
    int64_t layers, hidden, vocab, experts = 0;
  };
  // One large tensor, many small ones, and few with many experts each.
  for (const Sizes& sizes : {Sizes{1, 64, 1 << 18}, Sizes{300, 4, 16}, Sizes{3, 4, 16, 700}}) {
    INFO(sizes.layers << " layers, " << sizes.experts << " experts");
    const testing::TemporaryFolder folder;
    Json model = section(sizes.layers, sizes.hidden, sizes.vocab);
    if (sizes.experts > 0) {
      model["type"] = "mixtral", model["ffn"] = 4, model["experts"] = {{"number", sizes.experts}, {"top_k", 1}};
      model["experts"]["norm_topk_prob"] = true;
    }
    write_folder(folder.path / "plain", model);
    fill(folder.path / "plain/model.safetensors");
    const Json resolved = runtime::model_json(config_of(model));
    const Peak peak;
    CopyPlan plan;
    {
      const Reader from = open_hugging_face(folder.path / "plain");
      CHECK(peak.bytes() <= from.table_bytes());
      plan = plan_copy(from);
      CHECK(peak.bytes() <= plan.host_bytes);
      import_hugging_face(from, resolved, folder.path / "run/checkpoints");
    }
    CHECK(peak.bytes() <= plan.host_bytes);
    CHECK(peak.bytes() > write_buffer_bytes / 2);
    if (sizes.layers == 1) CHECK(plan.host_bytes < 4u * 64 * (1 << 18) / 6);
    const uint64_t written = size_of(folder.path / "run");
    CHECK(written <= plan.disk_bytes);
    CHECK(plan.disk_bytes < written + (2 << 20));
    CHECK(same_weights(Reader(folder.path / "run/checkpoints/step_0", true), open_hugging_face(folder.path / "plain")));
  }
}

TEST_CASE("Delinking on disk holds no more memory than it said, whatever the layers and the model, and as much disk") {
  struct Sizes {
    int64_t layers, hidden, vocab;
  };
  // One large tensor, and one small one under many names.
  for (const Sizes& sizes : {Sizes{2, 16, 1 << 18}, Sizes{96, 4, 16}}) {
    INFO(sizes.layers << " layers");
    const testing::TemporaryFolder folder;
    const models::Sharing sharing{{sizes.layers}, {}};
    testing::Setting s;
    s.ranks = 2, s.stage = 1, s.micro_batch = 1;
    {
      const models::Model model = config_of(section(sizes.layers, sizes.hidden, sizes.vocab)).model.make();
      testing::SavingRun run(models::share(model, sharing), s, folder.path, false);
      run.sharing = sharing;
      run.steps(1);
      run.save();
      REQUIRE(run.saved().error.empty());
    }
    CopyPlan plan;
    const Peak peak;
    {
      const Reader shared(folder.path / "step_1", false);
      CHECK(peak.bytes() <= shared.table_bytes());
      plan = plan_copy(shared);
      CHECK(peak.bytes() <= plan.host_bytes);
      runtime::delink_checkpoint(shared, {runtime::StatesAtDelink::rescale, "", nullptr}, folder.path / "real");
    }
    CHECK(peak.bytes() <= plan.host_bytes);
    CHECK(peak.bytes() > plan.host_bytes / 8);
    const uint64_t written = size_of(folder.path / "real");
    CHECK(written <= plan.disk_bytes);
    CHECK(plan.disk_bytes < written + (2 << 20));
    if (sizes.layers == 2) CHECK(plan.host_bytes < written / 4);
  }
}

TEST_CASE("An import for which the disk has no room is refused before anything is written") {
  const testing::TemporaryFolder folder;
  constexpr int64_t hidden = 8192;
  const uint64_t free = core::free_bytes(folder.path);
  const int64_t vocab = static_cast<int64_t>(free / (4 * hidden)) + (1 << 16);  // 2 GiB more
  write_folder(folder.path / "plain", section(1, hidden, vocab));
  const Reader from = open_hugging_face(folder.path / "plain");
  const fs::path run = folder.path / "new/run";
  const SmallFiles small;
  std::string error;
  try {
    import_hugging_face(from, from.manifest().model, run / "checkpoints");
  } catch (const core::DataError& refusal) {
    error = refusal.what();
  }
  INFO(error);
  CHECK(error.find(fmt::format("needs {} bytes", plan_copy(from).disk_bytes)) != std::string::npos);
  CHECK(error.find("are free; make room, or name a folder on another disk") != std::string::npos);
  CHECK(!fs::exists(run.parent_path()));
}

TEST_CASE("Loading holds no more than it said on every rank, and states of any form are cut without a trace") {
  // Its embeddings are one unit, many times what a rank may hold of it, and a row state of Adafactor's.
  const models::Model model = config_of(section(1, 16, 1 << 17)).model.make();
  const auto adam = [](optimizer::Moments moments) {
    return optimizer::make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true, moments});
  };
  for (const auto& optimizer :
       {adam(optimizer::Moments::f32), adam(optimizer::Moments::bf16), adam(optimizer::Moments::int8),
        optimizer::make_optimizer(optimizer::AdafactorParams{})}) {
    for (int stage : {0, 3}) {
      INFO("stage " << stage);
      testing::Setting s;
      s.ranks = 2, s.stage = stage, s.unit_elements = 1 << 22;
      s.optimizer = optimizer;
      const testing::TemporaryFolder folder;
      testing::SavingRun whole(model, s, folder.path, false);
      whole.steps(1);
      whole.save();
      whole.steps(1);
      const Reader reader(folder.path / "step_1", false);
      {
        const runtime::Layout layout = testing::make_layout(model, s);
        runtime::SessionHooks hooks;
        hooks.load = [&](const std::string& name, int64_t begin, std::span<float> out) {
          reader.read(name, begin, out);
        };
        hooks.loads_states = true;
        runtime::Session session(runtime::compile(layout, {"load", "step"}), testing::session_options(s), hooks);
        const Peak peak;
        session.run("load", {});
        CHECK(peak.bytes() <= 2 * runtime::load_host_bytes(reader));
        CHECK(peak.bytes() >= runtime::load_buffer_bytes / 2);
      }
      testing::SavingRun again(model, s, folder.path / "again", false, &reader);
      again.steps(1);
      CHECK(again.hash() == whole.hash());
    }
  }
}

}  // namespace zrt::load_memory_test
