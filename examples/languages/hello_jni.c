/* The native methods of Hello.java, over message.c:
 *
 *     cc -O2 -shared -fPIC -I$JAVA_HOME/include -I$JAVA_HOME/include/linux hello_jni.c -o libhello_jni.so -L. -lmessage
 */
#include <jni.h>
#include <stdint.h>

struct end;
struct end *message_connect(const char *address, void *buffer, size_t octets);
struct end *message_accept(const char *address, void *buffer, size_t octets);
int message_send(struct end *end, void *buffer, size_t octets);
int message_receive(struct end *end);
void message_close(struct end *end);

static void *memory(JNIEnv *env, jobject buffer, size_t *octets)
{
    *octets = (size_t)(*env)->GetDirectBufferCapacity(env, buffer);
    return (*env)->GetDirectBufferAddress(env, buffer);
}

JNIEXPORT jlong JNICALL Java_Hello_open(JNIEnv *env, jclass type, jstring address, jobject buffer, jboolean listens)
{
    const char *text = (*env)->GetStringUTFChars(env, address, NULL);
    size_t octets;
    void *at = memory(env, buffer, &octets);
    struct end *end = (listens ? message_accept : message_connect)(text, at, octets);

    (void)type;
    (*env)->ReleaseStringUTFChars(env, address, text);
    return (jlong)(intptr_t)end;
}

JNIEXPORT jboolean JNICALL Java_Hello_send(JNIEnv *env, jclass type, jlong end, jobject buffer)
{
    size_t octets;
    void *at = memory(env, buffer, &octets);

    (void)type;
    return !message_send((struct end *)(intptr_t)end, at, octets);
}

JNIEXPORT jboolean JNICALL Java_Hello_receive(JNIEnv *env, jclass type, jlong end)
{
    (void)env, (void)type;
    return !message_receive((struct end *)(intptr_t)end);
}

JNIEXPORT void JNICALL Java_Hello_close(JNIEnv *env, jclass type, jlong end)
{
    (void)env, (void)type;
    message_close((struct end *)(intptr_t)end);
}
