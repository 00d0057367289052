/**
 * How much clients may ask for: rows of the service's settings, which `service.ts` puts into its table.
 */
import { defineSettings } from './setting.js'

const KB = 1024
const MB = 1024 ** 2
const GB = 1024 ** 3
const TB = 1024 ** 4

export const LIMIT_SETTINGS = defineSettings({
  /** Chat requests of one base model that may run or wait; beyond it 429. */
  maxPendingRequests: {
    key: 'max-pending-requests',
    type: 'integer',
    default: 512,
    bounds: { min: 1, max: 1_000_000 },
    summary: 'chat requests of one base model that may run or wait; beyond it 429',
  },
  /** Requests of one key that may run at once; beyond it 429. */
  maxConcurrentRequests: {
    key: 'max-concurrent-requests',
    type: 'integer',
    default: 2000,
    bounds: { min: 1, max: 1_000_000 },
    summary: 'requests of one key that may run at once, streams included; beyond it 429',
  },
  /** Requests one key may send in a minute; beyond it 429. Null: no limit, the default. */
  requestsPerMinute: {
    key: 'requests-per-minute',
    type: 'integer',
    default: null,
    bounds: { min: 1, max: 1_000_000_000 },
    whenAbsent: 'no limit',
    summary: 'requests that one key may send in a minute; beyond it 429',
  },
  /** Streams of events that one entity may follow at once; beyond it 429. */
  maxEventStreams: {
    key: 'max-event-streams',
    type: 'integer',
    default: 256,
    bounds: { min: 1, max: 1_000_000 },
    summary: 'streams of events that one entity may follow at once; beyond it 429',
  },
  /** Open connections, of which those without a key have an eighth; a further one takes the place of one that waits for its client. */
  maxConnections: {
    key: 'max-connections',
    type: 'integer',
    default: 4096,
    bounds: { min: 16, max: 1_000_000 },
    summary: 'open connections, an eighth of them without a key; a further one takes the place of an idle one',
  },
  /** Requests of one connection that may wait behind the one that runs; with more it is cut. */
  maxPipelinedRequests: {
    key: 'max-pipelined-requests',
    type: 'integer',
    default: 2000,
    bounds: { min: 0, max: 1_000_000 },
    summary: 'requests of one connection that may wait behind its running one; with more it is cut',
  },
  /** Bytes of answers that clients have not read, together; beyond it connections that were unread longest are cut. */
  maxUnreadBytes: {
    key: 'max-unread-answers',
    type: 'size',
    default: 256 * MB,
    bounds: { min: MB, max: TB },
    summary: 'answers that clients have not read, together; beyond it connections unread longest are cut',
  },
  /** Training jobs of one entity that may wait or run; beyond it 429. */
  maxQueuedJobs: {
    key: 'max-queued-jobs',
    type: 'integer',
    default: 1000,
    bounds: { min: 1, max: 1_000_000 },
    summary: 'training jobs of one entity that may wait or run; beyond it 429',
  },
  /** Samples of training loops of one key that may wait or run; beyond it 429. */
  maxWaitingSamples: {
    key: 'max-waiting-samples',
    type: 'integer',
    default: 4096,
    bounds: { min: 1, max: 1_000_000 },
    summary:
      'samples of training loops that may wait or run for one key, for an entity four times as many; beyond it 429',
  },
  /** Prompts that wait and results that nobody has fetched, of the samples of one key, bytes; beyond it 429. */
  maxSampleBytes: {
    key: 'max-sample-memory',
    type: 'size',
    default: 256 * MB,
    bounds: { min: MB, max: TB },
    summary:
      'memory of one key for samples of training loops, prompts that wait and results nobody has fetched, for an entity four times as much; beyond it 429',
  },
  /** Largest body of requests that no other limit is for, bytes. */
  maxRequestBodyBytes: {
    key: 'max-request-body',
    type: 'size',
    default: 8 * MB,
    bounds: { min: 64 * KB, max: 256 * MB },
    summary: 'largest body of requests that no other limit is for',
  },
  /** Largest body of a request for an answer, bytes. */
  maxChatBodyBytes: {
    key: 'max-chat-body',
    type: 'size',
    default: 16 * MB,
    bounds: { min: 64 * KB, max: 256 * MB },
    summary: 'largest body of a request for an answer',
  },
  /** Largest body of trajectory groups, bytes. */
  maxTrajectoriesBytes: {
    key: 'max-trajectories-body',
    type: 'size',
    default: GB,
    bounds: { min: 64 * KB, max: TB },
    summary: 'largest body of trajectory groups; costs disk, not memory',
  },
  /** Largest trajectory group, bytes. A group is one text while it is written, and no text is longer than its bound. */
  maxGroupBytes: {
    key: 'max-trajectory-group',
    type: 'size',
    default: 128 * MB,
    bounds: { min: 64 * KB, max: 512 * MB },
    summary: 'largest trajectory group, which is read in memory',
  },
  /** Largest uploaded file, bytes. */
  maxUploadBytes: {
    key: 'max-upload',
    type: 'size',
    default: 16 * GB,
    bounds: { min: 64 * KB, max: 16 * GB },
    summary: 'largest uploaded file',
  },
  /** All bodies on disk that are not read to their end yet, bytes; beyond it 503. */
  maxUnfinishedBytes: {
    key: 'max-unfinished-bodies',
    type: 'size',
    default: 4 * GB,
    bounds: { min: 64 * KB, max: TB },
    summary: 'request bodies on disk that are not read to their end yet, together; beyond it 503',
  },
})
