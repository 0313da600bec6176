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

/* Whoever drops the last reference comes after all who dropped theirs. */
void g_bytes_unref(GBytes *bytes) {
  if (bytes != NULL) {
    __tsan_release(bytes);
    __tsan_acquire(bytes);
  }
  NEXT(g_bytes_unref)(bytes);
}

void g_atomic_rc_box_release_full(gpointer block, GDestroyNotify clear) {
  __tsan_release(block);
  __tsan_acquire(block);
  NEXT(g_atomic_rc_box_release_full)(block, clear);
}

void(g_once_init_leave)(volatile void *location, gsize result) {
  __tsan_release((void *)(guintptr)location);
  void (*real)(volatile void *, gsize) = dlsym(RTLD_NEXT, "g_once_init_leave");
  real(location, result);
}

gboolean(g_once_init_enter)(volatile void *location) {
  gboolean (*real)(volatile void *) = dlsym(RTLD_NEXT, "g_once_init_enter");
  gboolean is_first = real(location);
  if (!is_first) __tsan_acquire((void *)(guintptr)location);
  return is_first;
}
