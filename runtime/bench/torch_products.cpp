#include "runtime/bench/torch_products.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace zrt::runtime {
namespace {

using Json = nlohmann::ordered_json;

// Reads a task from its first argument and writes the answer to its second.
constexpr const char* script = R"(
import json, multiprocessing, queue, statistics, sys, time
import torch

def matrix(rows, columns, stride, turned, dtype):
    stored = torch.full((columns if turned else rows, stride), 0.01).to(dtype)
    return stored[:, :rows].T if turned else stored[:, :columns]

def seconds_of(product, rounds, barrier):
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    M, N, K = product["M"], product["N"], product["K"]
    if not product["a"] == product["b"] == product["c"]:
        return None
    dtype = kind[product["a"]]
    a = matrix(M, K, product["lda"], product["trans_a"], dtype)
    b = matrix(K, N, product["ldb"], product["trans_b"], dtype)
    c = torch.empty((M, product["ldc"]), dtype=dtype)[:, :N]
    def timed(calls):
        barrier.wait()
        begin = time.perf_counter()
        for _ in range(calls):
            torch.mm(a, b, out=c)
        return (time.perf_counter() - begin) / calls
    timed(1)
    calls = int(min(max(0.005 / product["about"], 1), 1000))
    return statistics.median(timed(calls) for _ in range(rounds))

def rank(number, task, barrier, answers):
    try:
        torch.set_num_threads(task["threads"])
        answers.put([seconds_of(product, task["rounds"], barrier) for product in task["products"]])
    except BaseException as error:
        barrier.abort()
        answers.put(repr(error))

def collect(ranks, answers):
    rows = []
    while len(rows) < len(ranks):
        try:
            rows.append(answers.get(timeout=1))
        except queue.Empty:
            if any(each.exitcode not in (None, 0) for each in ranks):
                sys.exit("a process that multiplied ended")
    failed = [row for row in rows if isinstance(row, str) and "BrokenBarrier" not in row]
    if failed or any(isinstance(row, str) for row in rows):
        sys.exit((failed or rows)[0])
    return rows

task = json.load(open(sys.argv[1]))
library = "MKL" if torch.backends.mkl.is_available() else "oneDNN or its own"
answer = {"name": f"PyTorch {torch.__version__.split('+')[0]}, {library}", "seconds": []}
if task["products"]:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(task["ranks"]), context.Queue()
    ranks = [context.Process(target=rank, args=(i, task, barrier, answers), daemon=True)
             for i in range(task["ranks"])]
    for each in ranks:
        each.start()
    rows = collect(ranks, answers)
    for each in ranks:
        each.join()
    answer["seconds"] = [None if None in column else statistics.mean(column) for column in zip(*rows)]
json.dump(answer, open(sys.argv[2], "w"))
)";

// A folder of this user alone that goes with the object.
class PassingFolder {
 public:
  PassingFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "zrt-products-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw core::DataError(fmt::format("cannot make a folder like {}: {}", name, std::strerror(errno)));
    }
    path_ = name;
  }
  ~PassingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Answer {
  std::string name;
  std::vector<double> seconds;
};

Answer ask(const std::string& python, const Json& task) {
  const PassingFolder folder;
  const std::string asked = folder / "task.json", answered = folder / "answer.json";
  core::write_durably(asked, task.dump());
  std::vector<char*> arguments;
  for (const char* argument : {python.c_str(), "-c", script, asked.c_str(), answered.c_str()}) {
    arguments.push_back(const_cast<char*>(argument));
  }
  arguments.push_back(nullptr);
  pid_t child = 0;
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);  // stdout is for results
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw core::DataError(fmt::format("--python is '{}', which cannot be run", python));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw core::DataError(
        fmt::format("'{}' could not time PyTorch's products; what it printed is above. It must be a Python with "
                    "PyTorch.",
                    python));
  }
  try {
    const Json json = Json::parse(core::read_text(answered, 1 << 20));
    Answer answer{json.at("name").get<std::string>(), {}};
    for (const Json& each : json.at("seconds")) {
      answer.seconds.push_back(each.is_number() ? each.get<double>() : std::numeric_limits<double>::infinity());
    }
    if (answer.seconds.size() == task["products"].size()) return answer;
    throw core::DataError(
        fmt::format("'{}' timed {} products of {}", python, answer.seconds.size(), task["products"].size()));
  } catch (const nlohmann::json::exception& error) {
    throw core::DataError(fmt::format("what '{}' wrote is not understood: {}", python, error.what()));
  }
}

Json product_json(const models::GemmSpec& spec) {
  const double flops = 2.0 * static_cast<double>(spec.M) * static_cast<double>(spec.N) * static_cast<double>(spec.K);
  return {{"M", spec.M},
          {"N", spec.N},
          {"K", spec.K},
          {"trans_a", spec.trans_a},
          {"trans_b", spec.trans_b},
          {"lda", spec.lda},
          {"ldb", spec.ldb},
          {"ldc", spec.ldc},
          {"a", core::dtype_name(spec.a)},
          {"b", core::dtype_name(spec.b)},
          {"c", core::dtype_name(spec.c)},
          {"about", flops / 1e11}};  // seconds of a call, for the number of calls
}

}  // namespace

TorchProducts::TorchProducts(std::string python) : python_(std::move(python)) {
  name_ = ask(python_, {{"ranks", 1}, {"threads", 1}, {"rounds", 1}, {"products", Json::array()}}).name;
}

std::vector<double> TorchProducts::seconds(const std::vector<models::GemmSpec>& products, int ranks, int threads,
                                           int rounds) const {
  Json task{{"ranks", ranks}, {"threads", threads}, {"rounds", rounds}, {"products", Json::array()}};
  for (const models::GemmSpec& spec : products) task["products"].push_back(product_json(spec));
  return ask(python_, task).seconds;
}

}  // namespace zrt::runtime
