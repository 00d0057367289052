/** Every deployment trial, in the order in which they are told. A trial has a name, `run(kit)`, and `isLong` where it takes a minute. */
import { CONTAINER_TRIALS } from './trials/container.js'
import { MACHINE_TRIALS } from './trials/machine.js'
import { MONITORING_TRIALS } from './trials/monitoring.js'
import { PROXY_TRIALS } from './trials/proxies.js'
import { VERSION_TRIALS } from './trials/versions.js'

export const TRIALS = [...MACHINE_TRIALS, ...CONTAINER_TRIALS, ...VERSION_TRIALS, ...PROXY_TRIALS, ...MONITORING_TRIALS]
