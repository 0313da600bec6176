/* A library to preload under the thread sanitizer: tells it what the locks of GLib, which is not
 * built for it, order. GLib's threads start and end through pthread, which the sanitizer sees by
 * itself. */
#include <dlfcn.h>
#include <glib.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void g_mutex_lock(GMutex *mutex) {
  NEXT(g_mutex_lock)(mutex);
  __tsan_acquire(mutex);
}

gboolean g_mutex_trylock(GMutex *mutex) {
  gboolean is_ours = NEXT(g_mutex_trylock)(mutex);
  if (is_ours) __tsan_acquire(mutex);
  return is_ours;
}

void g_mutex_unlock(GMutex *mutex) {
  __tsan_release(mutex);
  NEXT(g_mutex_unlock)(mutex);
}

void g_cond_wait(GCond *cond, GMutex *mutex) {
  __tsan_release(mutex);
  NEXT(g_cond_wait)(cond, mutex);
  __tsan_acquire(mutex);
}

gboolean g_cond_wait_until(GCond *cond, GMutex *mutex, gint64 end_time) {
  __tsan_release(mutex);
  gboolean in_time = NEXT(g_cond_wait_until)(cond, mutex, end_time);
  __tsan_acquire(mutex);
  return in_time;
}
