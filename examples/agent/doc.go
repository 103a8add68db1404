// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Agent is a work agent for a real cluster: it applies the ManifestWorks that a hub has for the cluster, keeps what they
// bring as they want it, reports, and cleans up. Works come over a broker
//
//	go run ./examples/agent --cluster cluster1 --broker mqtt://broker:1883 --source hub --store works.db
//
// or from the API server of a hub, which may be one of Open Cluster Management (OCM)
//
//	go run ./examples/agent --cluster cluster1 --transport kube --hub-kubeconfig hub.kubeconfig
//
// The same controller does both: all it knows of a hub is the generated clientset.
//
// What a work has brought belongs to an AppliedWork on the cluster (kubectl get appliedworks). The process may be killed at
// any moment: the next one goes on where it was. One at a time is enough: give a Deployment of it one replica and the strategy
// Recreate. When no agent is to come back, delete the AppliedWorks: what they own is deleted. What the deleteOption leaves, and
// adopted objects without a deleteOption, stays.
//
// # The parts
//
//	internal/cli         the command line
//	internal/hub         where works come from: a broker or an API server; the clientset is the same
//	internal/controller  the queue: which work is served when; finalizers, deletion, eviction, what is watched
//	internal/manifest    what the manifests are, and which configurations of the work are for which
//	internal/spoke       the managed cluster: update strategies, executors, AppliedWorks
//	internal/ignore      which fields are left to others
//	internal/jsonpath    where a JSON path leads
//	internal/rules       condition rules: CEL and well-known
//	internal/feedback    feedback rules: JSON paths and well-known fields
//	internal/budget      what the rules of one work may cost together
//	internal/recovery    panics become errors
//	internal/status      conditions and values: a function of what became of the manifests
//	internal/serve       /metrics, /healthz and /readyz
//
// # Each field of a ManifestWork
//
// This is what the agent does with the API v1.3.0 (open-cluster-management.io/api/work/v1), field by field. The folder works
// has samples. To try them, with an agent as the second above, on a hub that has the CRD of ManifestWorks (one of OCM does;
// otherwise it is in folder work/v1 of the module open-cluster-management.io/api):
//
//	kubectl --kubeconfig hub.kubeconfig create namespace cluster1
//	kubectl --kubeconfig hub.kubeconfig apply -f examples/agent/works
//	kubectl --kubeconfig hub.kubeconfig get manifestwork executor -n cluster1 -o yaml
//	kubectl --kubeconfig hub.kubeconfig delete -f examples/agent/works
//
// All are applied, in the namespace shop that namespace.yaml makes, but for the Secret of executor.yaml, which its service account
// may not create; the work says so. Their images do not exist. Namespace shop stays, with what the delete options leave. To apply
// the samples again, delete the namespace first: the agent does not adopt it. See Rights.
//
//	spec
//	  workload.manifests             applied, namespaces and CRDs first; what is not in the work any more is deleted. One that
//	                                 cannot be used does not stop the others, but while one cannot be decoded nothing is deleted
//	  deleteOption                   for objects that leave the work, and for all when it ends
//	    propagationPolicy
//	      Foreground                 deleted, and so is what they own, before the work goes; the default
//	      Orphan                     left; they have no owner reference at any time
//	      SelectivelyOrphan          those of the rules are left, the others are deleted
//	    selectivelyOrphans
//	      .orphaningRules            group, resource, namespace and name, each exactly
//	    ttlSecondsAfterFinished      counted from when the work became Complete; then the agent deletes the work on the hub. An
//	                                 agent cannot do that over a broker: it removes the objects and reports Available=False,
//	                                 reason TTLExpired, and the source deletes the work
//	  manifestConfigs                all that fit an object are joined, the first has priority
//	    resourceIdentifier           group, resource, namespace and name; * in the last two stands for any characters
//	    updateStrategy.type
//	      Update                     server-side apply with force; the default
//	      CreateOnly                 created; what exists and may be adopted gets the owner reference and stays as it is
//	      ServerSideApply            server-side apply
//	      ReadOnly                   only looked at, and never deleted; what the work had applied before is let go
//	    updateStrategy.serverSideApply
//	      force                      takes over what others manage; without it that is reason ApplyConflict
//	      fieldManager               work-agent or a name that begins so; the UID of the AppliedWork is added, because two works
//	                                 with one manager would take out each other's fields
//	      ignoreFields
//	        condition
//	          OnSpokePresent         the fields are left as they are once the object exists
//	          OnSpokeChange          they are left when somebody else has changed them
//	        jsonPaths                .spec.replicas, .spec.template.spec.containers[?(@.name=="web")].image
//	        jsonPointers             /spec/replicas
//	                                 Of Secrets only jsonPointers: see Rights
//	        jqPathExpressions        .spec.template.spec.containers[] | select(.name == "web") | .image; at most 4 KiB and 250 ms.
//	                                 They name fields: +, range, variables and others that make values are refused
//	    feedbackRules                read as often as the object changes; not from Secrets: see Rights
//	      type
//	        WellKnownStatus          of the kinds of interpreter/native: see internal/feedback
//	        JSONPaths                of the object; one that leads nowhere there is tried under status
//	      jsonPaths
//	        name                     the first of several with one name counts
//	        version                  the object is read in that version
//	        path                     a whole number, a boolean, and a text of at most 16,384 characters are Integer, Boolean and
//	                                 String; all else, and several values, JsonRaw of at most 1,024 characters. Bounded, as
//	                                 those of ignoreFields are: 4 KiB, 10,000 values found, 1 s
//	    feedbackScrapeType
//	      Watch                      read when the object changes
//	      Poll                       and also every --poll; the default
//	    conditionRules               the first for each condition counts; not evaluated on Secrets: see Rights
//	      condition                  any type; Complete ends updates: see below. Of WellKnownConditions without one: Complete
//	      type
//	        WellKnownConditions      Jobs and Pods: whether they have finished. With the condition Healthy: whether the kinds of
//	                                 interpreter/native are
//	        CEL
//	      celExpressions             all must be true; object is the object. Bounded: 16 KiB, 2,000 parts, a cost of 1,000,000, 250 ms
//	      message                    of the condition
//	      messageExpression          a text in CEL, from object and result; "" leaves the message
//	  executor.subject
//	    type                         ServiceAccount
//	    serviceAccount               applies, reads and deletes the objects, by impersonation. What it may not do is said
//	                                 on the manifest and on the work. It must be allowed to delete what it applies, unless
//	                                 that stays when the work ends. The agent may require one: see Rights
//	status
//	  conditions                     written when something changed, with the generation they are about
//	    Applied, Available           all manifests are; else how many are not, and why the first is not
//	    Progressing                  something is still to come: Applying, Failed, or Completed
//	    Degraded                     a manifest is. AgentPanicked: the agent panicked while it served the work. AgentEnded: see Crashes
//	    Complete                     all manifests that have a rule for it are
//	    RulesWithinLimits            False: not all rules were followed: see Limits
//	    DeleteOptionUsable           False: ttlSecondsAfterFinished is less than 0, and does not count
//	    ObjectsWatched               False: the agent may not watch some objects, and polls them
//	    Contested                    True: others change objects as often as they are applied: see Drift
//	    ManifestsReported            False: the hub has refused what resourceStatus would say, and has what it had before. That of
//	                                 2,500 manifests has 2.7 MB, and an API server takes 1.5 in all
//	    Deleting                     while the work is being deleted: what is still there
//	    Deleted                      nothing is left; the finalizer goes next
//	  resourceStatus.manifests
//	    resourceMeta                 resource is empty while the cluster does not have the kind
//	    statusFeedback.values        as the feedback rules want them
//	    conditions
//	      Applied                    AppliedManifestComplete, AppliedManifestFailed, ApplyConflict, ExecutorRefused, or
//	                                 AppliedManifestSSAIgnoreFieldError
//	      Available                  the object exists; Unknown where it cannot be read
//	      Progressing                not applied, or not healthy as interpreter/native sees it; ObjectFailed: a Job that has failed
//	      Degraded                   that has been so for --degraded-after; at once of a Job that has failed. AgentPanicked: the
//	                                 agent panicked while it prepared the manifest or evaluated its rules
//	      StatusFeedbackSynced       False: a rule is wrong, or a value too large. SecretNotRead: it is for a Secret.
//	                                 LimitExceeded: see Limits
//	      Contested                  True: others change the object as often as it is applied; says who, where it is a work
//	      of condition rules         ConditionRuleEvaluated, ConditionRuleInvalid or ConditionRuleExpressionError; Unknown with
//	                                 ConditionRuleInternalError while there is no object, or it cannot be read
//	      ConditionRulesUsable       False: a rule's condition cannot be the type of one. SecretNotRead: it is for a Secret.
//	                                 LimitExceeded: see Limits
//
// A manifest that is Complete is not touched any more, whatever later generations of its work bring, until its rule for that
// goes. A work that is Complete is not touched until it gets another generation, but for what could not be applied by then. An
// object that its own controller removes then, as a Job with a limit of its own, is not made anew.
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
// The objects have an owner reference to the AppliedWork, and go with it: Kubernetes' garbage collector deletes them, whatever
// the executor may do. Therefore the agent creates a SubjectAccessReview before it writes an object. The executor must be allowed to
// create or patch the object, and to delete it where it gets the owner reference. Objects that the deleteOption leaves, and adopted
// objects that stay, need no right to delete. The agent asks for a whole namespace first, and by name if that is denied. It
// remembers the answer for 10 s. An object that is unchanged is not written, and keeps its owner reference.
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
// Works come from outside, so what their rules may take is bounded, for each expression and path as
// the table says, and for all of a work together: 10,000 expressions and paths, and 2 s, each time
// the work is served. What is over that is not evaluated: the conditions of its rules are Unknown,
// its values are missing, its manifest is not applied where it is for ignoreFields, and the work
// gets the condition RulesWithinLimits=False. A work whose rules take longer than 100 ms rests for
// nine times as long, so that it slows down itself and not the others.
//
// A manifest is decoded if it takes up to 64 MiB of memory, or 8 times its text if that is more,
// and all manifests of a work up to 256 MiB together. Sizes are estimates. The length of all
// identifiers with wildcards, times the manifests, is at most 4,194,304. Manifests over these
// limits are Applied=False, like manifests that cannot be decoded.
//
// The feedback and condition rules of all manifests together are 10,000 at most. A rule with
// several paths or expressions counts as many. A rule that fits several manifests counts for each.
// Later manifests have no feedback rules then (StatusFeedbackSynced=False), and condition rules
// only for Complete, Available, Applied, Progressing and Degraded (ConditionRulesUsable=False). The
// reason is LimitExceeded, and the work is RulesWithinLimits=False.
//
// Calls cannot be interrupted, so they take steps before they begin: for the texts that they read, and what they make. One call
// may take 1,000,000 steps, one evaluation 4,000,000. A step is about 10 ns or 10 bytes. In regular expressions counted repeats
// multiply: a compiled expression has at most 4,096 instructions, and each 8 instructions take a step for each byte of the text.
// Compiled CEL expressions are kept within 16 MiB.
//
// # Crashes
//
// The agent recovers from a panic: the work or the manifest is Degraded with the reason AgentPanicked, and the log has the stack. A fatal
// error or the kernel may still end the process. Therefore the agent records an attempt in the annotation
// spokewire.github.io/work-agent of the AppliedWork, before it serves a generation of a work for the first time, and clears the attempt
// afterwards. When the next process finds an attempt, it serves the other works first. It serves these works one at a time,
// after 2 s, and after twice that time with each further end, 10 minutes at most. Until then the work is Degraded with the reason
// AgentEnded. A new generation of the work is served at once. A work that ends the process after its first service, as when
// its object has changed, has no attempt yet: the next process records the attempt, so that the process after that postpones the work.
//
// # Drift
//
// Each object is watched by itself, with metadata only. What somebody changes or deletes is applied again at once, and the
// status follows the objects. A manifest of a kind that the cluster does not have waits for its CRD. Polled, every --poll, are
// feedback of type Poll, objects beyond --max-watches, and objects that the agent may not watch: the work says so. What failed is
// tried again with growing pauses of at most a minute.
//
// Two works, or a work and a controller, that want one object otherwise would change it for ever. When an object was changed and
// applied again four times, the work says that it is Contested, and it is applied with growing pauses of at most a minute, until
// it has stayed for 5 minutes or the work has another generation.
//
// # Eviction
//
// An AppliedWork whose work the hub does not have any more, although nobody has seen its deletion, is removed after
// --eviction-grace, by the delete option and the executor that the work had. The hub must say that it does not have it: not to
// reach it is no reason. Over a broker eviction is off unless --eviction-grace is given: a source that has lost its works, and
// creates them again, would have them removed meanwhile.
//
// # Several hubs
//
// Agents of several hubs may serve one cluster, each with a --hub of its own, which is part of the names of its AppliedWorks. Where
// two have the same by mistake, nothing of one is taken or removed by the other: an AppliedWork has the address of the hub that
// has recorded it, of a broker with the sources that are served, in its annotation spokewire.github.io/work-agent. A work
// whose AppliedWork is of another hub says so (Applied=False), and the agent prints what it does not evict.
//
// So when a hub moves to another address, or is reached by another name, start the agent once with --hub-was OLD-ADDRESS, as it
// prints it: what was recorded of that is taken over, and the flag may go when all works are Applied. Until then a work that is
// deleted stays, and its condition Deleting says why. Addresses are not proof of identity: two hubs that are reached by one
// address, as through a tunnel, need --hub.
//
// # What differs from OCM's agent
//
//   - Update is a server-side apply with force. OCM's replaces the spec of kinds that it does not know, which takes out what
//     others have added; here that stays. A field that is taken out of a manifest goes in both.
//   - What exists is not adopted unless --adopt always is given, and rules do not read Secrets without --secret-feedback. OCM's agent
//     does both. Executors can be required here.
//   - Executors are impersonated for all requests about objects but watches, which have metadata only. OCM's asks for access
//     reviews and applies by itself. Here the API server decides, by whatever means, and access reviews only add the deletion by an
//     owner reference. An executor must be allowed to get, list, create, patch and delete what its works have.
//   - Field managers have the UID of the AppliedWork at their end.
//   - Which fields of ignoreFields are ours, the API server's managed fields say, and not a hash of the manifest: OnSpokeChange
//     holds also when the manifest has changed. A field that the agent manages itself is not reset by ignoring it.
//   - CEL has the extensions of cel-go for strings, lists, sets and math. OCM's agent has those for strings, and the libraries of
//     Kubernetes (quantity, url, ip, cidr, semver, format, find, and sum, min and max of lists), which are not here.
//   - A conflict has the reason ApplyConflict, as the API says.
//   - Complete manifests stay so when their object is gone. The agent carries out ttlSecondsAfterFinished, but for the deletion
//     of the work over a broker; there the hub does.
//   - A ReadOnly object that does not exist is Applied=True and Available=False.
//   - Progressing and Degraded are reported without rules.
//   - Objects that the deleteOption leaves, and adopted objects without a deleteOption, never have an owner reference: they stay
//     also if somebody deletes the AppliedWork. OCM's agent deletes adopted objects without a deleteOption.
//   - The inventory is AppliedWork (multicluster.x-k8s.io), not AppliedManifestWork. Objects of the other agent are adopted with
//     --adopt unowned: delete its ManifestWorks with the delete option Orphan first.
//
// # Metrics and probes
//
// With --listen :8080 the agent serves the probes of a Deployment and metrics. /healthz is 200 while the process runs. /readyz is 503
// with the reason until the API server of the cluster has answered and the works of the hub are known, and while the broker is
// away or refuses the agent's topics. /metrics is for Prometheus:
//
//	spokewire_agent_works                             how many works there are
//	spokewire_agent_work_conditions{type,status}      how many of them are Applied, Available, Progressing, Degraded, Complete,
//	                                                  Contested, Deleting, ManifestsReported, ObjectsWatched and
//	                                                  RulesWithinLimits, and how many are not
//	spokewire_agent_manifests{applied,reason}         how many manifests are applied, and why the others are not
//	spokewire_agent_served_total{result}              how often works were applied, failed, removed
//	spokewire_agent_apply_seconds                     how long that takes, with the report
//	workqueue_*{name="manifestworks"}                 depth, adds, waits, times and retries, as of each controller of Kubernetes
//	spokewire_dynamicwatcher_*{name="work-agent"}     watches, by state
//	spokewire_cloudevents_*                           the connection to the broker and what goes over it
//	go_*, process_*                                   the process
//
// Alert on spokewire_agent_work_conditions{type="Applied",status="False"} > 0. All series are of
// one cluster: which, the scrape configuration says.
//
// # Access
//
// On the cluster: what appliedwork/ACCESS.md lists, list and watch on the kinds of works, get,
// create, update and watch on customresourcedefinitions, and, for executors, impersonate on their
// service accounts and create on subjectaccessreviews (authorization.k8s.io). With the admission
// plugin OwnerReferencesPermissionEnforcement the executors themselves need update on
// appliedworks/finalizers. Works without an executor need what they bring to be allowed to the
// agent; with --require-executor the agent needs of that only list and watch. On a hub's API
// server: get, list, watch, patch and delete on manifestworks and patch on manifestworks/status, in
// the cluster's namespace. At a broker: what package cloudevents/work lists.
package main
