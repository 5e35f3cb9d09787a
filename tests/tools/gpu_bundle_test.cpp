// The scripts of the GPU bundle, on a machine without a GPU: what they say is missing, and how they judge programs.
#include "tests/tools/gpu_bundle.h"

namespace zrt::gpu_bundle_test {

using namespace zrt::testing;
using Catch::Matchers::Contains;

TEST_CASE("the scripts of the GPU bundle are scripts, and say without a GPU what there is and what is missing") {
  for (const char* script : {"run.sh", "pack.sh", "first_contact.sh", "environment.sh"}) {
    CHECK(run_command("bash -n " + gpu_tools + script).code == 0);
  }
  if (!found("python3")) {
    CHECK_THAT(run_command(gpu_tools + "run.sh --list").text, Contains("python3 is missing"));
    return;
  }
  const Result syntax = run_command("cd " + gpu_tools +
                                    " && python3 -c \"import ast, glob\nfor f in glob.glob('*.py'): "
                                    "ast.parse(open(f, encoding='utf-8').read(), f)\"");
  INFO(syntax.text);
  CHECK(syntax.code == 0);
  const Result list = run_command("env -u ZRT_PROGRAMS " + gpu_tools + "run.sh --list");
  CHECK(list.code == 0);
  for (const char* part : {"facts", "kernels", "models", "runtime", "sanitizer", "bench", "peers", "offload"}) {
    CHECK_THAT(list.text, Contains("\n" + std::string(part) + ' ') || Catch::Matchers::StartsWith(part));
  }
  CHECK_THAT(list.text, Contains("target gpu_bundle"));
  CHECK(run_command(gpu_tools + "run.sh --help").code == 0);
  const Result refused = run_command(gpu_tools + "run.sh --parts kernels,kernel");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, Contains("names 'kernel'") && Contains("sanitizer"));
  CHECK_THAT(run_command(gpu_tools + "run.sh").text, Contains("--parts is missing") && Contains("first_contact.sh"));
  CHECK_THAT(run_command(gpu_tools + "run.sh --parts facts --seconds 900").text, Contains("at most at 470"));
  CHECK_THAT(run_command(gpu_tools + "run.sh --parts offload --runs 17b,18b").text,
             Contains("names '18b'") && Contains("40b"));
}

TEST_CASE("runs of models larger than a GPU are sized for the machine at hand, and their copies are told") {
  if (!found("python3") || !found("xz")) return;
  const Folder folder("gpu_bundle_offload");
  make_zrt(folder), make_bundle(folder);
  const auto run = [&](const std::string& device_gib, const std::string& host_gib, const std::string& runs) {
    return run_command("ZRT_DEVICE_BYTES=$((" + device_gib + " << 30)) ZRT_HOST_BYTES=$((" + host_gib +
                       " << 30)) TMPDIR=" + folder.path.string() + " " + (folder / "bundle/run.sh") + " --out " +
                       (folder / "out") + " --parts offload --runs " + runs);
  };
  const Result large = run("140", "128", "14b");
  INFO(large.text);
  REQUIRE(large.code == 0);
  CHECK_THAT(large.text, Contains("17.00B parameters, 900 tokens/s") && Contains("exposed io 2.25 s") &&
                             Contains("device 1.00/1.00 GiB") && Contains("written 8.0 GB") &&
                             Contains("to_device 40.0 GB/s (0.80 of pinned), to_host 30.0 GB/s\n"));
  const auto row = read_json(folder / "out/results.json")["offload"].at(0);
  // 0.97 of 136 GiB at 2.69 each, and of 99.84 GiB of the host at 2.40: the host has the last word.
  const std::string command = row["command"];
  for (const char* part : {"zrt bench train --device cuda", "model.layers=40",
                           "memory.device_budget_bytes=146028888064", "memory.host_budget_bytes=107202383708"}) {
    CHECK_THAT(command, Contains(part));
  }
  CHECK(row["of_pinned"].size() == 1);
  REQUIRE(run("80", "64", "40b").code == 0);  // 0.97 of 76 and 49.92 GiB at 1.84 each
  CHECK_THAT(read_json(folder / "out/results.json")["offload"].at(0)["command"].get<std::string>(),
             Contains("model.layers=66"));
}

TEST_CASE("a bundle that cannot be carried together with the source is refused") {
  if (!found("xz") || !found("git")) return;
  const Folder folder("gpu_bundle_pack");
  fs::create_directories(folder / "build/share/zrt");
  folder.write("tests.txt", "kernels|a/one|test_one\nkernels|a/two|test_one|[#two]\n");
  const std::string build = folder / "build";
  REQUIRE(run_command("cp /bin/true " + build + "/zrt && cp /bin/true " + build + "/test_one").code == 0);
  const std::string pack = gpu_tools + "pack.sh " + build + " " + (folder / "out") + " " + (folder / "tests.txt");
  const Result fits = run_command(pack);
  INFO(fits.text);
  CHECK(fits.code == 0);
  CHECK_THAT(fits.text, Contains("2 programs"));
  CHECK(fs::exists(folder / "out/first_contact.sh"));
  const Result large = run_command("ZRT_GPU_BUNDLE_MIB=1 " + pack);
  CHECK(large.code == 1);
  CHECK_THAT(large.text, Contains("cannot be carried in one go"));
}

TEST_CASE("native builds are for the GPUs that the driver lists, and are refused where it lists none") {
  const Folder folder("native_chips");
  folder.write("ask.cmake", std::string("include(") + ZRT_SOURCE_DIR +
                                "/cmake/zrt_native_chips.cmake)\nzrt_native_chips(chips)\nmessage(\"for ${chips}\")\n");
  const auto ask = [&](const std::string& listed) {
    folder.write("nvidia-smi", "#!/bin/sh\n" + listed + "\n");
    fs::permissions(folder / "nvidia-smi", fs::perms::owner_all);
    return run_command("cmake -DZRT_NVIDIA_SMI=" + (folder / "nvidia-smi") + " -P " + (folder / "ask.cmake"));
  };
  CHECK(ask("echo 9.0; echo 8.6; echo 9.0").text == "for 90;86\n");
  CHECK(ask("echo 12.0").text == "for 120\n");
  const Result none = ask("echo 'No devices were found'");
  CHECK(none.code != 0);
  CHECK_THAT(none.text, Contains("lists no GPU here") && Contains("-DZRT_CUDA=OFF"));
  CHECK(ask("echo 9.0; exit 9").code != 0);
}

}  // namespace zrt::gpu_bundle_test
