// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Agent is a work agent for a real cluster. It applies the ManifestWorks that a hub has for the
// cluster, keeps their objects as the works require, reports status, and cleans up. It receives
// works over a broker
//
//	go run ./examples/agent --cluster cluster1 --broker mqtt://broker:1883 --source hub --store works.db
//
// or from the API server of a hub, which may be a hub of Open Cluster Management (OCM)
//
//	go run ./examples/agent --cluster cluster1 --transport kube --hub-kubeconfig hub.kubeconfig
//
// The controller is the same in both cases: it uses the generated clientset.
//
// The objects of a work belong to an AppliedWork on the cluster (kubectl get appliedworks). The
// process may be killed at any moment: the next process continues. Run one agent at a time: give
// its Deployment one replica and the strategy Recreate. To remove the agent for good, delete the
// AppliedWorks: the objects that they own are deleted. Objects that the deleteOption orphans, and
// adopted objects without a deleteOption, stay.
//
// # The parts
//
//	internal/cli         the command line
//	internal/hub         the connection to a broker or an API server, with the same clientset
//	internal/controller  the queue of works; finalizers, deletion, eviction, watched objects
//	internal/manifest    the manifests, and the configurations of the work for each of them
//	internal/spoke       the managed cluster: update strategies, executors, AppliedWorks
//	internal/ignore      the fields that the agent leaves to other managers
//	internal/jsonpath    the fields that a JSON path selects
//	internal/rules       condition rules: CEL and well-known
//	internal/feedback    feedback rules: JSON paths and well-known fields
//	internal/budget      the limit on the cost of all rules of a work
//	internal/recovery    panics become errors
//	internal/status      conditions and values, computed from the outcomes of the manifests
//	internal/serve       /metrics, /healthz and /readyz
//
// # Each field of a ManifestWork
//
// This table describes the support for each field of the API v1.3.0
// (open-cluster-management.io/api/work/v1). The folder works has samples. To try them, run an agent
// as in the second command above, on a hub that has the CRD of ManifestWorks. A hub of OCM has it;
// otherwise it is in folder work/v1 of the module open-cluster-management.io/api:
//
//	kubectl --kubeconfig hub.kubeconfig create namespace cluster1
//	kubectl --kubeconfig hub.kubeconfig apply -f examples/agent/works
//	kubectl --kubeconfig hub.kubeconfig get manifestwork executor -n cluster1 -o yaml
//	kubectl --kubeconfig hub.kubeconfig delete -f examples/agent/works
//
// All objects are applied, in the namespace shop that namespace.yaml creates, except the Secret of
// executor.yaml: its service account may not create Secrets, and the work reports that. The images
// do not exist. The namespace shop stays, with the objects that the delete options orphan. To apply
// the samples again, delete the namespace first: the agent does not adopt it. See Rights.
//
//	spec
//	  workload.manifests             applied, namespaces and CRDs first; objects that left the work are deleted. An
//	                                 invalid manifest does not stop the others, but nothing is deleted while one
//	                                 cannot be decoded
//	  deleteOption                   for objects that leave the work, and for all when it ends
//	    propagationPolicy
//	      Foreground                 deleted with their dependents, before the work is removed; the default
//	      Orphan                     orphaned; the objects never have an owner reference
//	      SelectivelyOrphan          objects that match a rule are orphaned, the others are deleted
//	    selectivelyOrphans
//	      .orphaningRules            group, resource, namespace and name; each must be equal
//	    ttlSecondsAfterFinished      counted from the time when the work became Complete; then the agent deletes the
//	                                 work on the hub. Over a broker an agent cannot do that: it removes the objects
//	                                 and reports Available=False, reason TTLExpired, and the source deletes the work
//	  manifestConfigs                all that match an object are joined, the first has priority
//	    resourceIdentifier           group, resource, namespace and name; * in the last two matches any characters
//	    updateStrategy.type
//	      Update                     server-side apply with force; the default
//	      CreateOnly                 created; an existing object that may be adopted gets the owner reference and is
//	                                 not changed
//	      ServerSideApply            server-side apply
//	      ReadOnly                   only read, never deleted; objects that the work applied before are released
//	    updateStrategy.serverSideApply
//	      force                      takes over fields of other managers; otherwise they cause reason ApplyConflict
//	      fieldManager               work-agent or a name with that prefix; the UID of the AppliedWork is added,
//	                                 because two works with one manager would remove each other's fields
//	      ignoreFields
//	        condition
//	          OnSpokePresent         the fields are not changed once the object exists
//	          OnSpokeChange          the fields are not changed after another manager has changed them
//	        jsonPaths                .spec.replicas, .spec.template.spec.containers[?(@.name=="web")].image
//	        jsonPointers             /spec/replicas
//	                                 For Secrets only jsonPointers: see Rights
//	        jqPathExpressions        .spec.template.spec.containers[] | select(.name == "web") | .image; at most 4 KiB
//	                                 and 250 ms.
//	                                 They select fields: +, range, variables and others that make values are refused
//	    feedbackRules                read when the object changes; not from Secrets: see Rights
//	      type
//	        WellKnownStatus          for the kinds of interpreter/native: see internal/feedback
//	        JSONPaths                from the object; a path without a match is tried under status
//	      jsonPaths
//	        name                     the first of several values with the same name is used
//	        version                  the object is read in that version
//	        path                     an integer, a boolean and a string of at most 16,384 characters are Integer,
//	                                 Boolean and String; others, and several values, are JsonRaw of at most 1,024
//	                                 characters. Limits, also for paths of ignoreFields: 4 KiB, 10,000 matches, 1 s
//	    feedbackScrapeType
//	      Watch                      read when the object changes
//	      Poll                       read also every --poll; the default
//	    conditionRules               the first rule for each condition is used; not evaluated on Secrets: see Rights
//	      condition                  any type; Complete ends updates: see below. The default for WellKnownConditions
//	                                 is Complete
//	      type
//	        WellKnownConditions      whether Jobs and Pods have finished. With the condition Healthy: whether objects
//	                                 of the kinds of interpreter/native are healthy
//	        CEL
//	      celExpressions             all must be true; the variable object is the object. Limits: 16 KiB, 2,000 parts,
//	                                 a cost of 1,000,000, 250 ms
//	      message                    of the condition
//	      messageExpression          a string in CEL, from object and result; message is used if it is ""
//	  executor.subject
//	    type                         ServiceAccount
//	    serviceAccount               applies, reads and deletes the objects, by impersonation. Missing permissions are
//	                                 reported on the manifest and on the work. It must be allowed to delete the
//	                                 objects that it applies, unless they stay when the work ends. The agent may
//	                                 require one: see Rights
//	status
//	  conditions                     written when they change, with the observed generation
//	    Applied, Available           all manifests are; otherwise the number that are not, and the reason of the first
//	    Progressing                  the work is not finished: Applying, Failed; or Completed
//	    Degraded                     a manifest is degraded. AgentPanicked: the agent panicked while it served the
//	                                 work. AgentEnded: see Crashes
//	    Complete                     all manifests with a rule for Complete are complete
//	    RulesWithinLimits            False: not all rules were evaluated: see Limits
//	    DeleteOptionUsable           False: ttlSecondsAfterFinished is negative and ignored
//	    ObjectsWatched               False: the agent may not watch some objects, and polls them
//	    Contested                    True: others change objects as often as they are applied: see Drift
//	    ManifestsReported            False: the hub refused the new resourceStatus, and keeps the previous one. The
//	                                 size for 2,500 manifests is 2.7 MB; an API server accepts 1.5 MB in all
//	    Deleting                     while the work is being deleted: the remaining objects
//	    Deleted                      all objects are removed; the finalizer is removed next
//	  resourceStatus.manifests
//	    resourceMeta                 resource is empty while the cluster does not have the kind
//	    statusFeedback.values        the values of the feedback rules
//	    conditions
//	      Applied                    AppliedManifestComplete, AppliedManifestFailed, ApplyConflict, ExecutorRefused,
//	                                 or AppliedManifestSSAIgnoreFieldError
//	      Available                  the object exists; Unknown if it cannot be read
//	      Progressing                not applied, or not healthy by interpreter/native; ObjectFailed: a Job that has
//	                                 failed
//	      Degraded                   Progressing for --degraded-after; at once if a Job has failed. AgentPanicked: the
//	                                 agent panicked while it prepared the manifest or evaluated its rules
//	      StatusFeedbackSynced       False: a rule is invalid, or a value too large. SecretNotRead: it is for a
//	                                 Secret. LimitExceeded: see Limits
//	      Contested                  True: others change the object as often as it is applied; names other works
//	      of condition rules         ConditionRuleEvaluated, ConditionRuleInvalid or ConditionRuleExpressionError;
//	                                 Unknown with ConditionRuleInternalError if the object does not exist or cannot be
//	                                 read
//	      ConditionRulesUsable       False: a rule has an invalid condition type. SecretNotRead: it is for a Secret.
//	                                 LimitExceeded: see Limits
//
// A manifest that is Complete is not changed again, also not by later generations of its work,
// until its rule for Complete is removed. A work that is Complete is not changed until it has
// another generation, except for manifests that were not applied by then. An object that its own
// controller removes after that, such as a Job with a TTL, is not created again.
//
// # Rights
//
// A work without an executor acts with the rights of the agent. Its author can read, apply and
// delete every object that the agent can. Start the agent with --executor for each service account
// that works may name; works without an executor are then refused:
//
//	--broker mqtts://broker:8883 --broker-ca ca.crt --broker-cert tls.crt --broker-key tls.key \
//	  --source hub --executor shop/deployer
//
// Allow the agent to impersonate these service accounts only:
//
//	rules: # of a Role in the namespace shop
//	  - {apiGroups: [""], resources: [serviceaccounts], resourceNames: [deployer], verbs: [impersonate]}
//
// --require-executor alone accepts every service account that the agent may impersonate.
//
// A refused work is Applied=False, its manifests have the reason ExecutorRefused, and the agent
// sends no request for its objects. Run one agent for each hub or source that needs its own list,
// each with its own --hub.
//
// The executor applies, prunes and deletes the objects. All rules read the objects with its rights:
// feedback, conditions, messages and ignoreFields. The agent's own requests are watches of metadata
// and, after each start, a list of metadata to find its objects. The agent does not watch an object
// that the executor may not read. It tries to read that object as the executor every --poll.
//
// The objects have an owner reference to the AppliedWork and are deleted with it: Kubernetes'
// garbage collector deletes them, whatever the executor may do. Therefore the agent creates a
// SubjectAccessReview before it writes an object. The executor must be allowed to create or patch
// the object, and to delete it if it gets the owner reference. Objects that the deleteOption
// orphans, and adopted objects that stay, need no right to delete. The agent first asks for a whole
// namespace, and by name if that is denied. It caches the answer for 10 s. An unchanged object is
// not written, and keeps its owner reference.
//
// When a work ends, its objects are deleted as the executor in the work. If the agent refuses that
// executor, or the work has lost it, the objects are deleted as the executor with which the work
// was applied last. An eviction uses that executor too. If the agent refuses both, nothing is
// deleted: the condition Deleting gives the reason, and the agent prints it for an eviction. The
// same applies to objects that an earlier agent has applied with its own rights. Either set an
// executor in the work, or delete its AppliedWork: Kubernetes' garbage collector then deletes the
// objects, and the work ends.
//
// Rules do not read Secrets of the core API: feedback, conditions and messages are refused. In
// ignoreFields only jsonPointers name fields of Secrets, because a path with a comparison reveals
// values by the fields that it finds and the time that it takes. The manifest's conditions have the
// reason SecretNotRead. With --secret-feedback rules read Secrets like other objects, and the hub
// and the broker receive the values.
//
// The agent does not adopt an object that exists and that the work has not applied: the manifest is
// Applied=False, and the object stays as it is. --adopt unowned adopts objects without owners.
// --adopt always adopts all objects, as OCM's agent does, including those of other works: two works
// can then have one object, and an object can move from one work to another without being deleted.
// An adopted object that no work owned stays when the work ends, unless the work has a deleteOption.
// An agent that is restarted or installed again finds the objects of its works by the AppliedWorks
// and their owner references.
//
// # Limits
//
// Works are untrusted, so the cost of their rules is limited. The table has the limits for each
// expression and path. All of a work together may have 10,000 expressions and paths, and take 2 s,
// each time the work is served. Rules over these limits are not evaluated: their conditions are
// Unknown, their values are missing, and a manifest with such ignoreFields is not applied. The work
// gets the condition RulesWithinLimits=False. After its rules took longer than 100 ms, a work
// pauses for nine times as long, so it slows down only itself.
//
// A manifest is decoded if it needs up to 64 MiB of memory, or 8 times its text if that is more.
// All manifests of a work together may need 192 MiB. Sizes are estimates. The length of all
// identifiers with wildcards, times the manifests, is at most 4,194,304. Manifests over these
// limits are Applied=False, like manifests that cannot be decoded.
//
// The feedback and condition rules of all manifests together are 10,000 at most. A rule with
// several paths or expressions counts as many. A rule that matches several manifests counts for each.
// Later manifests have no feedback rules then (StatusFeedbackSynced=False), and condition rules
// only for Complete, Available, Applied, Progressing and Degraded (ConditionRulesUsable=False). The
// reason is LimitExceeded, and the work is RulesWithinLimits=False.
//
// Calls cannot be interrupted, so they take steps before they begin: for their input and their
// output. One call may take 1,000,000 steps, one evaluation 4,000,000. A step is about 10 ns or 10
// bytes. In regular expressions counted repeats multiply: a compiled expression has at most 4,096
// instructions, and each 8 instructions take a step for each byte of the text. The cache of
// compiled CEL expressions is limited to 16 MiB.
//
// # Crashes
//
// The agent recovers from a panic: the work or the manifest is Degraded with the reason
// AgentPanicked, and the log has the stack. A fatal error or the kernel may still end the process.
// Therefore the agent records an attempt before it serves a generation of a work for the first
// time, and clears the attempt afterwards. The attempt is in the annotation
// spokewire.github.io/work-agent of the AppliedWork. When the next process finds an attempt, it
// serves the other works first. It serves the works with attempts one at a time, after 2 s. The
// delay doubles with each further end, to 10 minutes at most. Until then the work is Degraded with
// the reason AgentEnded. A new generation of the work is served at once. A work that ends the
// process after its first service, for example when its object has changed, has no attempt yet: the
// next process records the attempt, and the process after that postpones the work.
//
// # Drift
//
// Each object has its own watch, with metadata only. A changed or deleted object is applied again
// at once, and the status follows the objects. A manifest of a kind that the cluster does not have
// waits for its CRD. The agent polls, every --poll: feedback of type Poll, objects beyond
// --max-watches, and objects that the agent may not watch, which the work reports. Failures are
// retried with growing pauses of at most a minute.
//
// Two works, or a work and a controller, that set the same fields differently would change an
// object for ever. When an object was changed and applied again four times, the work is Contested.
// It is then applied with growing pauses of at most a minute, until the object has not changed for
// 5 minutes or the work has another generation.
//
// # Eviction
//
// An AppliedWork is evicted after --eviction-grace if the hub does not have its work any more and
// the agent did not observe the deletion. The eviction uses the delete option and the executor that
// the work had. The hub must report that it does not have the work: an unreachable hub is no
// reason. Over a broker eviction is off unless --eviction-grace is given: a source that has lost
// its works, and creates them again, would have them removed meanwhile.
//
// # Several hubs
//
// Agents of several hubs may serve one cluster, each with a --hub of its own, which is part of the
// names of its AppliedWorks. If two agents have the same --hub by mistake, neither adopts or
// removes objects of the other: the annotation spokewire.github.io/work-agent of an AppliedWork has
// the address of the hub that recorded it, and for a broker the served sources. A work with an
// AppliedWork of another hub reports that (Applied=False), and the agent prints the AppliedWorks
// that it does not evict.
//
// When a hub moves to another address, or is reached by another name, start the agent once with
// --hub-was OLD-ADDRESS, as the agent prints it. The agent then takes over the records of that
// address. Remove the flag when all works are Applied. Until then a deleted work stays, and its
// condition Deleting gives the reason. Addresses are no proof of identity: two hubs that are
// reached by one address, for example through a tunnel, need --hub.
//
// # What differs from OCM's agent
//
//   - Update is a server-side apply with force. For unknown kinds, OCM's agent replaces the spec,
//     which removes additions of others; here these stay. A field that is removed from a manifest
//     is removed by both.
//   - Existing objects are not adopted unless --adopt always is given, and rules do not read
//     Secrets without --secret-feedback. OCM's agent does both. Executors can be required here.
//   - Executors are impersonated for all requests about objects except watches, which have metadata
//     only. OCM's agent creates access reviews and applies with its own rights. Here the API server
//     decides, with all its authorizers, and access reviews only cover the deletion by an owner
//     reference. An executor must be allowed to get, list, create, patch and delete the objects of
//     its works.
//   - Field managers end with the UID of the AppliedWork.
//   - The API server's managed fields decide which fields of ignoreFields belong to the agent, not
//     a hash of the manifest: OnSpokeChange also applies after the manifest has changed. A field
//     that the agent manages itself is not reset when it is ignored.
//   - CEL has the extensions of cel-go for strings, lists, sets and math. OCM's agent has the
//     extensions for strings. It also has the libraries of Kubernetes, which are missing here:
//     quantity, url, ip, cidr, semver, format, find, and sum, min and max of lists.
//   - A conflict has the reason ApplyConflict, as the API specifies.
//   - Complete manifests stay Complete when their object is deleted. The agent implements
//     ttlSecondsAfterFinished, except for the deletion of the work over a broker; there the hub
//     deletes it.
//   - A ReadOnly object that does not exist is Applied=True and Available=False.
//   - Progressing and Degraded are reported without rules.
//   - Objects that the deleteOption orphans, and adopted objects without a deleteOption, never have
//     an owner reference: they stay also if the AppliedWork is deleted by hand. OCM's agent deletes
//     adopted objects without a deleteOption.
//   - The inventory is AppliedWork (multicluster.x-k8s.io), not AppliedManifestWork. Objects of the
//     other agent are adopted with --adopt unowned: delete its ManifestWorks with the delete option
//     Orphan first.
//
// # Metrics and probes
//
// With --listen :8080 the agent serves the probes of a Deployment and metrics. /healthz is 200
// while the process runs. /readyz is 503 with the reason until the API server of the cluster has
// answered and the works of the hub are known. It is also 503 while the broker is unreachable or
// refuses the agent's topics. /metrics is for Prometheus:
//
//	spokewire_agent_works                             number of works
//	spokewire_agent_work_conditions{type,status}      number of works that are Applied, Available, Progressing,
//	                                                  Degraded, Complete, Contested, Deleting, ManifestsReported,
//	                                                  ObjectsWatched and RulesWithinLimits, and that are not
//	spokewire_agent_manifests{applied,reason}         number of applied manifests, and of the others by reason
//	spokewire_agent_served_total{result}              number of times that works were applied, failed, or were removed
//	spokewire_agent_apply_seconds                     duration of an apply, with the report
//	workqueue_*{name="manifestworks"}                 depth, adds, latency, duration and retries, as in every
//	                                                  Kubernetes controller
//	spokewire_dynamicwatcher_*{name="work-agent"}     watches, by state
//	spokewire_cloudevents_*                           the connection to the broker and its traffic
//	go_*, process_*                                   the process
//
// Alert on spokewire_agent_work_conditions{type="Applied",status="False"} > 0. All series belong to
// one cluster: the scrape configuration identifies it.
//
// # Access
//
// On the cluster: the permissions in appliedwork/ACCESS.md; list and watch on the kinds of works;
// get, create, update and watch on customresourcedefinitions; and, for executors, impersonate on
// their service accounts and create on subjectaccessreviews (authorization.k8s.io). With the
// admission plugin OwnerReferencesPermissionEnforcement the executors need update on
// appliedworks/finalizers. For works without an executor, the agent needs all permissions on their
// objects; with --require-executor it needs only list and watch on them. On a hub's API server:
// get, list, watch, patch and delete on manifestworks and patch on manifestworks/status, in the
// cluster's namespace. At a broker: the permissions that package cloudevents/work lists.
package main
