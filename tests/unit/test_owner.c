#include "store/owner.h"

#include <string.h>

#include "golden.h"

static void test_golden(void) {
  BlOwner owner = {
      .host = g_strdup("node-1"),
      .boot_id = g_strdup("5c1d7ba2-7d52-4f55-8a32-0f7a3a3c6a0e"),
      .pid_namespace = g_strdup("pid:[4026531836]"),
      .token = g_strdup("00112233445566778899aabbccddeeff"),
      .operation = g_strdup("import"),
      .pid = 4711,
      .start_time = 123456,
      .started_at = 1700000000,
  };
  g_autoptr(BlOwner) original = g_memdup2(&owner, sizeof owner);
  g_autofree char *text = bl_owner_to_json(original);
  gsize size;
  g_autofree char *golden = golden_load("docs/formats/golden", "claim.json", &size);
  g_assert_cmpstr(text, ==, golden);
  g_autoptr(BlOwner) parsed = bl_owner_from_json(golden, size);
  g_autofree char *again = bl_owner_to_json(parsed);
  g_assert_cmpstr(again, ==, golden);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/owner/golden", test_golden);
  return g_test_run();
}
