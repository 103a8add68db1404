// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import "maps"

// Difference is a line of a source or an agent that differs from the line of the API server.
type Difference struct{ Line, Reason string }

// Reasons of the differences. API.md lists them too.
const (
	newer      = "the metadata is checked by the functions of apimachinery 0.37, the oracle's by those of 0.36"
	namespaces = "a namespace is a cluster's name and always exists"
	agentDone  = "when its agent is done, the clean-up finalizer goes; another finalizer keeps the object, which is a " +
		"change of its own"
	future      = "a version from the future is an error, where the API server waits for it in silence"
	noCollector = "a source's works have no dependents, so no finalizer for the garbage collector comes and goes"
	goValues    = "objects are Go values: null, missing and empty are one"
	managed     = "managedFields begin with the first apply, and those of others stay as they are"
	sizes       = "the broker limits the size of an object"
	statuses    = "the status belongs to agents"
	sources     = "works belong to sources: an agent neither makes nor deletes them"
	specs       = "spec and owners belong to the source: an agent's change is refused, not lost"
	oneCluster  = "an agent has the works of its own cluster"
	stays       = "what an agent's user sets of the metadata stays on the cluster"
	sidesOwn    = "UID, finalizers and generateName are each side's own"
)

// Errors of more than one line of differences.
const (
	noStatus = `error MethodNotAllowed code=405 details=work.open-cluster-management.io/manifestworks/status ""`
	noMethod = `error MethodNotAllowed code=405 details=work.open-cluster-management.io/manifestworks ""`
	noSpec   = `error Invalid code=422 details=work.open-cluster-management.io/ManifestWork "app" cause=FieldValueForbidden spec "Forbidden: the spec belongs to the work's source: an agent cannot change it"`
	noOwners = `error Invalid code=422 details=work.open-cluster-management.io/ManifestWork "app" cause=FieldValueForbidden metadata.ownerReferences "Forbidden: the owners belong to the work's source: an agent cannot change them"`
	blocked  = `cause=FieldValueInvalid <nil> "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"`
)

// Differences are the known differences of a source and an agent from the API server, by script and
// label. API.md of package work lists the reasons.
var Differences = map[string]Difference{
	"create/bad owner": {`error Invalid code=422 details=work.open-cluster-management.io/ManifestWork "x" ` + blocked +
		` cause=FieldValueRequired metadata.ownerReferences[0].apiVersion "Required value: must not be empty"` +
		` cause=FieldValueRequired metadata.ownerReferences[0].kind "Required value: must not be empty"` +
		` cause=FieldValueRequired metadata.ownerReferences[0].uid "Required value: must not be empty"`, newer},
	"create/no such namespace": {`ok`, namespaces},
	"create/2 MiB":             {`ok`, sizes},
	"create/4 MiB":             {`ok`, sizes},

	"bad patches/json of a bad status": {`ns/app uid=1 version=same generation=1 created=true labels={"a":"1"} spec=` +
		simpleSpec, managed},

	"null patches/json of the workload of no spec, 2": {`ns/n8 uid=1 version=same generation=2 created=true`, goValues},
	"null patches/json without the spec, twice, 2":    {`ns/n9 uid=1 version=same generation=2 created=true`, goValues},
	"null patches/merge of an empty workload, 2":      {`ns/n12 uid=1 version=same generation=2 created=true`, goValues},

	"shapes/merge, empty manifestConfigs": {`ns/app uid=1 version=same generation=1 created=true generateName="gen-" ` +
		`owners=[{"apiVersion":"v1","kind":"K","name":"x","uid":"3"}] spec=` + simpleSpec, goValues},

	"deletion/what a watch sees of it":        {`MODIFIED [example.com/x]`, noCollector},
	"deletion/step 2, foreground again, then": {`ns/app uid=1 version=same ` + appHeld, noCollector},
	"deletion/step 3, orphan now, then":       {`ns/app uid=1 version=same ` + appHeld, noCollector},

	"watch/deletion by label": {
		`MODIFIED ns/one map[x:2], MODIFIED ns/one map[x:2] deleting, MODIFIED ns/one map[x:2] deleting`, agentDone,
	},
	"watch/from the future": {`ERROR Timeout code=504, closed`, future},

	"status from the hub/update":                                 {noStatus, statuses},
	"status from the hub/update of nothing":                      {noStatus, statuses},
	"status from the hub/application/merge-patch+json":           {noStatus, statuses},
	"status from the hub/application/json-patch+json":            {noStatus, statuses},
	"status from the hub/application/apply-patch+yaml":           {noStatus, statuses},
	"status from the hub/application/strategic-merge-patch+json": {noStatus, statuses},

	"spoke list/every namespace":  {`[] version=true`, oneCluster},
	"spoke watch/from the future": {`ERROR Timeout code=504, closed`, future},
	"spoke status patches/apply nothing": {`ns/app uid=1 version=same generation=1 created=true spec=` + simpleSpec,
		goValues},
	"spoke status bodies/json, manifests of no resourceStatus": {`ns/app uid=1 version=same generation=1 created=true spec=` + simpleSpec +
		` status={"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"R","status":"True","type":"A"}]}`, goValues},
	"spoke metadata patches/apply, conflict": {
		`error Conflict code=409 details=/ "" cause=FieldManagerConflict .metadata.labels.a "conflict with \"before-first-apply\" using work.open-cluster-management.io/v1"`,
		managed},
	"spoke metadata patches/on the hub": {`{"labels":{"both":"hub","hub":"2"},"spec":` + simpleSpec + `,"status":{}}`,
		stays},

	"travel/on the spoke": {`ns/app uid=2 version=new generation=1 created=true ` + travelled, sidesOwn},
	"travel/the same uid": {`false`, sidesOwn},
	"travel/metadata on the spoke": {`ns/app uid=2 version=new generation=1 created=true generateName="other-" labels={"a":"1","b":"1"} ` +
		`annotations={"a":"1","b":"1"} finalizers=["example.com/spoke"] ` + owned, sidesOwn},
	"travel/on the hub": {`ns/app uid=1 version=same generation=1 created=true generateName="app-" labels={"a":"1"} annotations={"a":"1"} ` +
		`finalizers=["example.com/hub"] ` + owned, stays},

	"spoke writes/create":                {noMethod, sources},
	"spoke writes/create of what exists": {noMethod, sources},
	"spoke writes/create, dry run":       {noMethod, sources},
	"spoke writes/create by apply": {
		`error NotFound code=404 details=work.open-cluster-management.io/manifestworks "applied"`, sources,
	},
	"spoke writes/delete":                         {noMethod, sources},
	"spoke writes/delete of nothing":              {noMethod, sources},
	"spoke writes/collection":                     {noMethod, sources},
	"spoke writes/update of the spec":             {noSpec, specs},
	"spoke writes/update of the spec and a label": {noSpec, specs},
	"spoke writes/update of the owners":           {noOwners, specs},
	"spoke writes/merge of the spec":              {noSpec, specs},
	"spoke writes/json of the spec":               {noSpec, specs},
	"spoke writes/apply of the spec":              {noSpec, specs},
}

// DifferencesOverHTTP returns the differences that remain for a client that sends JSON.
func DifferencesOverHTTP() map[string]Difference {
	out := maps.Clone(Differences)
	delete(out, "create/4 MiB")
	delete(out, "status from the hub/application/strategic-merge-patch+json")
	delete(out, "spoke status bodies/json, manifests of no resourceStatus")
	out["shapes/merge, empty manifestConfigs"] = Difference{`ns/app uid=1 version=new generation=1 created=true ` +
		`generateName="gen-" owners=[{"apiVersion":"v1","kind":"K","name":"x","uid":"3"}] spec=` + simpleSpec, goValues}
	out["null patches/merge of an empty workload, 2"] = Difference{`ns/n12 uid=1 version=new generation=2 created=true`,
		goValues}
	return out
}

// DifferencesOfAggregation returns the differences that remain if an API server forwards the
// requests: its cluster has namespaces.
func DifferencesOfAggregation() map[string]Difference {
	out := DifferencesOverHTTP()
	delete(out, "create/no such namespace")
	return out
}

const (
	simpleSpec = `{"workload":{"manifests":[{"apiVersion":"v1","data":{"value":"1"},"kind":"ConfigMap","metadata":{"name":"cm"}}]}}`
	owned      = `owners=[{"apiVersion":"v1","kind":"K","name":"x","uid":"1"}] spec=` + simpleSpec
	travelled  = `labels={"a":"1"} annotations={"a":"1"} ` + owned
	appHeld    = `generation=2 created=true deleting grace=0 finalizers=["example.com/x"] spec=` + simpleSpec
)
