/**
 * Turns off the telemetry of ONNX Runtime, which is on by default on Linux and Windows: it would resolve and connect to a
 * host of its maker, keep a device id and an event database under `~/.cache`, and leave a log per process in the temporary
 * folder. The native library reads the variable when it is loaded, so this module is imported before it
 * (`ort-runtime.ts`, its only importer); a process that loads no library loads no telemetry either.
 *
 * Source: `ORT_DISABLE_TELEMETRY`, onnxruntime/core/platform/posix/telemetry.cc. Tested by `test/e2e/privacy.test.ts`.
 */
import { setEnvironmentVariable } from '#base/environment.js'

setEnvironmentVariable('ORT_DISABLE_TELEMETRY', '1')
