#include "lib/base/run_main.h"

#include <errno.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <system_error>

#include "lib/base/error.h"

namespace tang {

namespace {

int report(const char* message, ErrorKind kind) {
  std::fflush(stdout);  // what was printed before the error stays before it
  std::string line = message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "%s: error: %s\n", program_invocation_short_name, line.c_str());
  return static_cast<int>(kind);
}

}  // namespace

int run_main(const std::function<int()>& body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return report(error.what(), error.kind());
  } catch (const std::bad_alloc&) {
    return report("out of memory on the host; use a smaller batch, model or sequence", ErrorKind::machine);
  } catch (const std::system_error& error) {  // std::filesystem and threads
    const bool full = error.code() == std::errc::no_space_on_device;
    const bool thread = error.code() == std::errc::resource_unavailable_try_again;
    return report(error.what(), full || thread ? ErrorKind::machine : ErrorKind::input);
  } catch (const std::exception& error) {
    return report(error.what(), ErrorKind::check);
  } catch (...) {
    return report("an exception of unknown type", ErrorKind::check);
  }
}

}  // namespace tang
