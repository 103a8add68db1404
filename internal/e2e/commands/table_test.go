// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

// commands says how each command of a document is tried.
//
//	asItIs     it is run, in a folder of its own, and has to print this
//	shorter    the same is run with other arguments, and has to print this
//	session    it is run as one of several, one after the other: see session_test.go
//	lookUp     it takes long or needs a cluster: what it names has to be there, such as flags, tests and packages
//	shownBy    lookUp, and a test that does the same has to be there
var commands = map[string]trial{
	"go run ./examples/quickstart":            asItIs("deleted"),
	"go run ./examples/quickstart/work-agent": lookUp,
	"go run ./examples/quickstart/work-agent --broker mqtt://broker:1883 --source hub1 --cluster cluster1": shownBy("internal/e2e", "TestWorkAgentExample"),
	"go run github.com/spokewire/sdk-go/examples/quickstart@latest":                                        lookUp,
	"go get github.com/spokewire/sdk-go/cloudevents/work github.com/spokewire/sdk-go/cloudevents/mqtt":     shownBy("internal/e2e/consumer", "TestConsumer"),

	"go run ./examples/fleet-bench --floor --svg fleet.svg": shorter("--floor --svg fleet.svg --agents 2 --works 20 --duration 100ms", "round trips"),
	"go run ./examples/fleet-bench":                         lookUp,
	"go run ./examples/fleet-bench --agents 10000 --light --works 20000 --rate 500 --duration 5s": shorter(
		"--agents 50 --light --works 100 --rate 500 --duration 200ms", "round trips"),
	"go run ./examples/fleet-bench --agents 10000 --works 20000 --broker mqtt://broker:1883": lookUp,
	"go run ./examples/fleet-bench --broker mqtt://broker:1883 --agents 1000 --works 100000": lookUp,

	"go run ./examples/policy-watcher":                                              lookUp,
	"go run ./examples/policy-watcher --kubeconfig ~/.kube/config":                  lookUp,
	"kubectl apply -f - <<END":                                                      kubectl,
	"kubectl create configmap plans --from-literal=default=gold":                    kubectl,
	"kubectl create secret generic database --from-literal=user=alice":              kubectl,
	"kubectl get policy greeting -o jsonpath='{.status}'":                           kubectl,
	"go run ./examples/watch-bench":                                                 lookUp,
	"go run ./examples/watch-bench --kubeconfig FILE":                               lookUp,
	"go run ./examples/watch-bench --kubeconfig FILE --objects 10000":               lookUp,
	"go run ./examples/watch-bench --kubeconfig FILE --objects 10000 --consolidate": lookUp,
	"go run ./examples/watch-bench --kubeconfig ~/.kube/config":                     lookUp,
	"go run ./examples/watch-bench --objects 10000 --watchers 100 --size 500000":    lookUp,
	"go run ./examples/applied-work":                                                lookUp,
	"go run ./examples/applied-work --manifests DIR":                                shownBy("internal/e2e", "TestAppliedWorkExample"),
	"go run ./examples/interpreter-webhook explain FILE":                            shorter("explain TREE/examples/interpreter-webhook/testdata/objects.yaml", "Deployment"),
	"go run ./examples/rsync":                                                       lookUp,
	"go run ./examples/rsync serve --broker URL":                                    lookUp,
	"go run ./examples/rsync serve --kubeconfig-dir DIR":                            lookUp,
	"go run ./examples/rsync serve --fake 2":                                        session,
	"go run ./examples/rsync serve --fake 3":                                        session,
	"go run ./examples/rsync create --cluster fake+cluster1 shop DIR":               session,
	"go run ./examples/rsync instantiate shop":                                      session,
	"go run ./examples/rsync status --watch shop":                                   session,
	"go run ./examples/rsync terminate shop":                                        session,
	"go run ./examples/rsync create --cluster fake+cluster1 --cluster fake+cluster2 shop examples/applied-work/manifests/v1": session,

	"go test -run '^$' -bench 'Serve|Match' -benchmem ./interpreter ./interpreter/caller":       once,
	"go test -run '^$' -bench Diff ./appliedwork":                                               once,
	"go test -run '^$' -bench . -benchmem ./cloudevents/mqtt ./codec":                           lookUp,
	"go test -run '^$' -bench . -benchtime 10x ./rsync/connector/git":                           lookUp,
	"go test -run '^$' -bench . ./rsync":                                                        lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench":                                     begun,
	"go test -run '^$' -benchmem ./cloudevents/work -bench CachedWorks -benchtime=20000x":       lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench HeapPerWork -benchtime=1x":           lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench IdleAgents -benchtime=10000x":        lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench Latency -benchtime=20000x":           lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench Outage -benchtime=10x":               lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench Resync -benchtime=10x":               lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench RoundTrip$ -benchtime=10000x":        lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench RoundTrip$ -benchtime=100000x":       lookUp,
	"go test -run '^$' -benchmem ./cloudevents/work -bench RoundTripEmbedded -benchtime=10000x": lookUp,

	"go test -run 'Allocations' -v ./interpreter/...":                                           lookUp,
	"go test -run 'Fleet|StopLatency|Transactions|DeadCluster|BlackHole' -v ./rsync":            lookUp,
	"go test -run 'Queue|Probes' -v ./rsync/connector/git":                                      lookUp,
	"go test -v -run SourceBinary ./internal/archtest":                                          lookUp,
	"go test -v -run Totals ./internal/archtest":                                                lookUp,
	"go test -C internal/e2e -run 'AppliedWorkLarge/Unchanged' -appliedwork.objects 10000 -v .": lookUp,
	"go test -C internal/e2e -run 'AppliedWorkSpeed' -v .":                                      lookUp,
	"go test -C internal/e2e -run '^$' -bench Watcher .":                                        lookUp,
	"go test -C internal/e2e -run Failover -v ./rsync":                                          lookUp,
	"go test ./consumer -run TestConsumer -update":                                              lookUpIn("internal/e2e"),
	"go test ./interop": lookUpIn("internal/e2e"),
	"go mod tidy":       known,

	// .ci/run runs these, but for those that need the network or hours.
	".ci/run":                known,
	"make":                   asItIs("make test"),
	"make help":              asItIs("make test"),
	"make apidiff":           lookUp,
	"make bench BENCH=Name":  lookUp,
	"make check":             lookUp,
	"make cover":             lookUp,
	"make fuzz":              lookUp,
	"make fuzz FUZZTIME=1m":  lookUp,
	"make fuzz RUNS=1000":    lookUp,
	"make fuzz SEEDS=100000": lookUp,
	"make generate":          lookUp,
	"make lint":              lookUp,
	"make test":              lookUp,
	"make test-fast":         lookUp,
	"make tidy":              lookUp,
	"make vuln":              lookUp,

	"apt-get install mosquitto":     lookUp,
	"apt-get install mosquitto git": lookUp,
}
