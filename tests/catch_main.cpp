// The main of every test program: Catch2's, of whichever major version, with --device.
#define CATCH_CONFIG_RUNNER
#include ZRT_CATCH_HEADER

#include <cstdlib>
#include <iostream>

#include "core/error.h"
#include "tests/device.h"
#include "tests/seed.h"

#if !defined(CATCH_VERSION_MAJOR) || CATCH_VERSION_MAJOR >= 3
namespace command_line = Catch::Clara;
#else
namespace command_line = Catch::clara;
#endif

int main(int argc, char** argv) {
  Catch::Session session;
  const char* wished = std::getenv("ZRT_TEST_DEVICE");
  std::string name = wished ? wished : "cpu";
  session.cli(session.cli() | command_line::Opt(name, "cpu|cuda")["--device"](
                                  "where kernels run (ZRT_TEST_DEVICE without it); tests about the CPU are skipped"));
  if (const int refused = session.applyCommandLine(argc, argv)) return refused;
  try {
    const auto device = zrt::core::parse_device(name);
    if (!device) throw zrt::core::ConfigError("--device " + name + " is not one of cpu, cuda");
    zrt::test::set_test_device(*device);
    const zrt::test::OnTestDevice here;
    const int failed = session.run();
    if (failed) std::cerr << "ZRT_TEST_SEED=" << zrt::test::test_seed() << " repeats the random numbers of this run\n";
    return failed;
  } catch (const zrt::core::Error& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
