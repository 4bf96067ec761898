// The one doctest main. Closes with the line that `make test` adds up.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string_view>

namespace {

struct Counts : doctest::IReporter {
  static inline unsigned passed = 0, failed = 0, skipped = 0;
  static inline bool filtered = false;
  explicit Counts(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    (stats.failure_flags == 0 ? passed : failed) += 1;
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  // Under a name filter doctest reports every test here; then only the whole run says what was skipped.
  void test_case_skipped(const doctest::TestCaseData& test) override {
    skipped += test.m_skip && !filtered ? 1 : 0;
  }
};
REGISTER_LISTENER("counts", 1, Counts);

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    Counts::filtered |= word.starts_with("--test-case=") || word.starts_with("-tc=");
  }
  const int code = context.run();
  if (context.shouldExit()) return code;
  std::printf("%u passed, %u failed, %u skipped\n", Counts::passed, Counts::failed, Counts::skipped);
  return Counts::passed + Counts::failed == 0 ? 1 : code;
}
