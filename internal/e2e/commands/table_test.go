// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

// table defines how each command of a document is run. The other commands of examples/TUTORIAL.md are
// the steps of a session.
//
//	asItIs        unchanged, in its own folder; it must print this text
//	incomplete    unchanged; it only names a program, which must print what it needs
//	shorter       with these smaller arguments; it must print this text
//	once, sized   benchmarks, for one round; sized runs only those of one size
//	verb          a verb of the Makefile, on one package and with these numbers
//	in            as a step of a session: see session_test.go
//	typedBy       by a test of another package, which has the same command, or reads it from the document
//	ci            by .ci/run itself
//	never         not at all, for this reason
var table = map[string]row{
	// The programs.
	"go run ./examples/quickstart":        asItIs("deleted"),
	"go run ./examples/quickstart --grpc": asItIs("deleted"),
	"go run github.com/spokewire/sdk-go/examples/quickstart@latest": typedBy(
		"internal/e2e/consumer", "TestConsumer", ""),
	"go get github.com/spokewire/sdk-go/cloudevents/work github.com/spokewire/sdk-go/cloudevents/mqtt": typedBy(
		"internal/e2e/consumer", "TestConsumer", ""),
	"go doc github.com/spokewire/sdk-go": asItIs(
		"Distribute work over a broker"),
	"go run ./examples/interpreter-webhook explain FILE": shorter(
		"explain TREE/examples/interpreter-webhook/testdata/objects.yaml", "Deployment"),
	"go run ./examples/interpreter-webhook explain --customizations FILE OBJECTS": shorter(
		"explain --customizations TREE/examples/interpreter-webhook/testdata/customizations "+
			"TREE/examples/interpreter-webhook/testdata/customized.yaml", "Machine"),
	"go run ./examples/interpreter-webhook serve --certs DIR": in("a webhook"),

	"go run ./examples/hub": incomplete("--broker"),
	"go run ./examples/hub --broker mqtt://localhost:1883 --dir examples/hub/samples": in("a hub and an agent"),
	"go run ./examples/hub --grpc localhost:8443 --dir examples/hub/samples":          in("a hub without a broker"),
	"go run ./examples/agent --hub localhost:8443 --hub-insecure --cluster cluster1 --source hub --store cluster1.db": in(
		"a hub without a broker"),
	"go run ./examples/hub --grpc :8443 --grpc-cert hub.crt --grpc-key hub.key --grpc-client-ca ca.crt " +
		"--dir examples/hub/samples": in("a hub without a broker"),
	"go run ./examples/agent --hub hub.example.com:8443 --hub-ca ca.crt --hub-cert cluster1.crt " +
		"--hub-key cluster1.key --cluster cluster1 --source hub --store cluster1.db": in("a hub without a broker"),
	"go run ./examples/hub --grpc :8443 --grpc-cert hub.crt --grpc-key hub.key --grpc-client-ca ca.crt " +
		"--listen :8080 --tls-cert hub.crt --tls-key hub.key --token-auth-file tokens.csv " +
		"--allowed-host hub.example.com --dir examples/hub/samples": in("a hub without a broker"),
	"go run ./examples/hub status --api https://hub.example.com:8080 --api-ca ca.crt --token-file token": in(
		"a hub without a broker"),
	"curl --cacert ca.crt --oauth2-bearer TOKEN https://hub.example.com:8080/api/v1/status": in(
		"a hub without a broker"),
	"openssl rand -hex 32": asItIs(""),
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=hub-ca " +
		"-keyout ca.key -out ca.crt": in("a hub without a broker"),
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=hub -addext " +
		"subjectAltName=DNS:hub.example.com -addext extendedKeyUsage=serverAuth -addext " +
		"basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key -keyout hub.key -out hub.crt": in(
		"a hub without a broker"),
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=cluster1 " +
		"-addext extendedKeyUsage=clientAuth -addext basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key " +
		"-keyout cluster1.key -out cluster1.crt": in("a hub without a broker"),
	"go run ./examples/hub certs --name hub.example.com --dir hub-certs": in("a join"),
	"go run ./examples/hub --grpc :8443 --certs hub-certs --join-listen :8444 " +
		"--join-url https://hub.example.com:8444 --dir examples/hub/samples": in("a join"),
	"go run ./examples/hub token create --cluster cluster1":                                              in("a join"),
	"go run ./examples/agent join --hub https://hub.example.com:8444 --token TOKEN --dir cluster1-certs": in("a join"),
	"go run ./examples/agent --hub hub.example.com:8443 --join cluster1-certs --source hub " +
		"--store cluster1.db": in("a join"),
	"go run ./examples/hub revoke cluster1":         in("a join"),
	"go run ./examples/hub backup --out hub.backup": typedBy("internal/e2e/hub", "TestBackup", `"backup", "--out"`),
	"go run ./examples/hub restore --store restored hub.backup": typedBy("internal/e2e/hub", "TestBackup",
		`"restore", "--store"`),
	"go run ./examples/hub certs --name hub.example.com --broker-name broker.example.com --dir hub-certs": typedBy(
		"internal/e2e/join", "TestOverMosquitto", `"--broker-name"`),
	"go run ./examples/hub --broker mqtts://broker.example.com --certs hub-certs --join-listen :8444 " +
		"--join-url https://hub.example.com:8444 --dir examples/hub/samples": typedBy(
		"internal/e2e/join", "TestOverMosquitto", `"--join-listen"`),
	"go run ./examples/agent --broker mqtts://broker.example.com --join cluster1-certs --source hub " +
		"--store cluster1.db": typedBy("internal/e2e/join", "TestOverMosquitto", `"--join"`),
	"go run ./examples/hub rollback shop":                           in("commands of a hub"),
	"go run ./examples/hub complete":                                in("a hub and an agent"),
	"go run ./examples/hub --grpc localhost:8443":                   in("commands of a hub"),
	"go run ./examples/hub diff -f examples/hub/samples":            in("commands of a hub"),
	"go run ./examples/hub apply -f examples/hub/samples":           in("commands of a hub"),
	"go run ./examples/hub status shop":                             in("commands of a hub"),
	"go run ./examples/hub delete cluster cluster2":                 in("commands of a hub"),
	"go run ./examples/hub get objects --cluster cluster1":          in("commands of a hub"),
	"go run ./examples/hub diff -f examples/hub/samples/shop.yaml":  in("commands of a hub"),
	"go run ./examples/hub apply -f examples/hub/samples/shop.yaml": in("commands of a hub"),
	"go run ./examples/hub forget cluster2":                         in("commands of a hub"),
	"go run ./examples/hub history shop":                            in("commands of a hub"),
	"go run ./examples/hub get applications":                        in("commands of a hub"),
	"source <(hub completion bash)": typedBy("internal/e2e/hub", "TestCommands",
		"source <(hub completion bash)"),
	"export PGPASSWORD=PASSWORD": shell,
	"go run ./examples/hub --broker mqtt://localhost:1883 --store postgres://hub@localhost/hub --listen 127.0.0.1:8080": in(
		"two replicas of a hub"),
	"go run ./examples/hub --broker mqtt://localhost:1883 --store postgres://hub@localhost/hub --listen 127.0.0.1:8081": in(
		"two replicas of a hub"),
	"go run ./examples/hub status --api http://localhost:8081": in("two replicas of a hub"),
	"go run ./examples/agent":                                  incomplete("--cluster"),
	"go run ./examples/agent --broker mqtt://localhost:1883 --cluster cluster1 --source hub --store cluster1.db": in(
		"a hub and an agent"),
	"go run ./examples/agent --cluster cluster1 --broker mqtt://broker:1883 --source hub --store works.db": in(
		"a hub and an agent"),
	"go run ./examples/agent --cluster cluster1 --hub-kubeconfig hub.kubeconfig": in(
		"an agent of an API hub"),
	"kubectl --kubeconfig hub.kubeconfig create namespace cluster1": in(
		"an agent of an API hub"),
	"kubectl --kubeconfig hub.kubeconfig apply -f examples/agent/works": in(
		"an agent of an API hub"),
	"kubectl --kubeconfig hub.kubeconfig get manifestwork executor -n cluster1 -o yaml": in(
		"an agent of an API hub"),
	"kubectl --kubeconfig hub.kubeconfig delete -f examples/agent/works": in(
		"an agent of an API hub"),

	"docker build -f examples/Dockerfile --build-arg PROGRAM=hub -t registry.example.com/hub:v1 .":     never(noRegistry),
	"docker build -f examples/Dockerfile --build-arg PROGRAM=agent -t registry.example.com/agent:v1 .": never(noRegistry),
	`(umask 077 && echo "$(openssl rand -hex 32),admin,admin,hub-editors" >tokens.csv)`:                operations,
	"kubectl create namespace spokewire": operations,
	"kubectl create secret generic hub -n spokewire --from-file tokens.csv --from-file ca.crt " +
		"--from-file tls.crt=hub.crt --from-file tls.key=hub.key": operations,
	"go run ./examples/hub install --apply --image registry.example.com/hub:v1 -- --grpc :8443 " +
		"--grpc-cert /credentials/tls.crt --grpc-key /credentials/tls.key --grpc-client-ca /credentials/ca.crt": operations,
	"go run ./examples/hub install --image registry.example.com/hub:v1 --monitoring -- " +
		"--broker mqtts://broker.example.com --broker-ca /credentials/ca.crt --store " +
		"'postgres://hub@db.example.com/hub?sslmode=verify-full&sslrootcert=/credentials/db.crt' >hub.yaml": operations,
	"kubectl get deployment,service,persistentvolumeclaim -n spokewire": operations,
	"kubectl port-forward -n spokewire deployment/hub 8080":             never("the API server of the tests has no nodes"),
	"kubectl create secret generic agent -n spokewire --from-file ca.crt --from-file tls.crt=cluster1.crt " +
		"--from-file tls.key=cluster1.key": operations,
	"go run ./examples/agent install --apply --image registry.example.com/agent:v1 --role cluster-admin -- " +
		"--cluster cluster1 --source hub --hub hub.example.com:8443 --hub-ca /credentials/ca.crt " +
		"--hub-cert /credentials/tls.crt --hub-key /credentials/tls.key": operations,
	"kubectl get deployment,persistentvolumeclaim -n spokewire":                                   operations,
	"go run ./examples/hub certs --name hub.example.com --name localhost --dir hub-certs":         operations,
	"kubectl create secret generic hub -n spokewire --from-file tokens.csv --from-file hub-certs": operations,
	"go run ./examples/hub install --apply --image registry.example.com/hub:v1 -- --grpc :8443 --certs " +
		"/credentials --join-listen :8444 --join-url https://hub.example.com:8444": operations,
	"kubectl create secret generic agent -n spokewire --from-file token": operations,
	"go run ./examples/agent install --apply --image registry.example.com/agent:v1 --role cluster-admin -- " +
		"--cluster cluster1 --source hub --hub hub.example.com:8443 --join /data/join --join-hub " +
		"https://hub.example.com:8444 --join-token-file /credentials/token": operations,

	"kind create cluster --name north --kubeconfig north.kubeconfig": never(noKind),
	"kind create cluster --name south --kubeconfig south.kubeconfig": never(noKind),
	"kind delete clusters north south":                               never(noKind),
	"rm -r hub-data hub-certs north-certs south-certs north.* south.* fleet.yaml " +
		"shop.yaml*": never("the tests remove their folders themselves"),

	"go run -C internal/e2e ./fleet-bench": shorter("--agents 2 --works 20 --duration 100ms", "round trips"),
	"go run -C internal/e2e ./fleet-bench --agents 10000 --works 20000 --rate 500 --duration 5s": shorter(
		"--agents 50 --works 100 --rate 500 --duration 200ms", "round trips"),
	"go run -C internal/e2e ./fleet-bench --agents 100 --works 200 --rate 50 --duration 1s": asItIs("round trips"),
	"go run -C internal/e2e ./fleet-bench --broker mqtt://broker:1883 --agents 1000 --works 100000": shorter(
		"--broker BROKER --agents 10 --works 40 --duration 200ms", "round trips"),
	"go run -C internal/e2e ./fleet-bench --store /tmp/works.db --agents 1000 --works 100000": shorter(
		"--store memory --agents 2 --works 20 --duration 100ms", "of live heap"),
	"go run -C internal/e2e ./fleet-bench --broker grpc --agents 1000 --works 100000": shorter(
		"--broker grpc --agents 10 --works 40 --duration 200ms", "round trips"),
	"go run -C internal/e2e ./fleet-bench --broker grpc --agents 9900 --works 20000 --rate 500 --duration 5s": shorter(
		"--broker grpc --agents 10 --works 40 --rate 100 --duration 200ms", "round trips"),
	"go run -C internal/e2e ./fleet-bench --broker grpc --tls --agents 9900 --works 20000 --rate 500 " +
		"--duration 5s": shorter(
		"--broker grpc --tls --agents 10 --works 40 --rate 100 --duration 200ms", "round trips"),
	"go run -C internal/e2e ./fleet-bench --broker grpc --store memory --agents 10000 --works 20000 " +
		"--duration 5s": shorter(
		"--broker grpc --store memory --agents 10 --works 40 --duration 200ms", "of live heap"),
	"ulimit -n 20000": shell,

	"go run .":                       in("a tutorial"),
	"kubectl create namespace edge1": in("a tutorial"),
	"kubectl create configmap greeting -n edge1 --from-literal=text=hello":                    in("a tutorial"),
	`kubectl patch configmap greeting -n edge1 --type=merge -p '{"data": {"text": "bye"}}'`:   in("a tutorial"),
	"kubectl get manifestworks -n edge1":                                                      in("a tutorial"),
	"kubectl delete manifestworks -n edge1 --all":                                             in("a tutorial"),
	"go run ./examples/agent --broker mqtt://localhost:1883 --cluster edge1 --source greeter": in("a tutorial"),
	"kubectl get configmap greeting -n default -o jsonpath='{.data.text}'":                    in("a tutorial"),
	"go run ./examples/agent --hub localhost:8443 --hub-ca ca.crt --hub-cert edge1.crt --hub-key edge1.key --hub-was " +
		"mqtt://localhost:1883 --cluster edge1 --source greeter": in("a tutorial"),
	`kubectl patch configmap greeting -n edge1 --type=merge -p '{"data": {"text": "hello again"}}'`: in("a tutorial"),

	"done": moveFromCRD,
	"grep -c '^ kind: ManifestWork$' works.yaml": moveFromCRD,
	"kubectl --server https://localhost:6444 --insecure-skip-tls-verify get manifestworks -A": never(
		"TestAccess in internal/e2e/apiserver sends this request to the server itself"),
	"go run ./examples/work-apiserver": incomplete("--broker"),
	"go run ./examples/work-apiserver --broker mqtt://localhost:1883 --kubeconfig ~/.kube/config --secure-port 6444": never(
		"internal/e2e/apiserver starts the program with these flags"),
	"kubectl -n work-apiserver create secret generic work-apiserver-broker --from-file " +
		"ca.crt=broker-ca.crt --from-file tls.crt=source.crt --from-file tls.key=source.key": installation,
	"kubectl -n work-apiserver create secret tls work-apiserver --cert tls.crt --key tls.key": installation,
	"kubectl create namespace work-apiserver":                                                 installation,
	"go run ./examples/work-apiserver install --apply --namespace work-apiserver " +
		"--image registry.example.com/work-apiserver:v1 -- --broker mqtts://broker.example.com:8883 " +
		"--broker-ca /broker/ca.crt --broker-cert /broker/tls.crt --broker-key /broker/tls.key": installation,
	"kubectl apply -f apiservice.yaml":                                                                       moveFromCRD,
	"kubectl auth can-i create manifestworks -n cluster1 --as alice":                                         installation,
	"kubectl create -f works.yaml":                                                                           moveFromCRD,
	"kubectl create rolebinding alice --clusterrole edit --user alice -n cluster1":                           installation,
	"kubectl delete apiservice v1.work.open-cluster-management.io":                                           moveFromCRD,
	"kubectl delete crd manifestworks.work.open-cluster-management.io":                                       moveFromCRD,
	"kubectl get manifestworks -A --no-headers -o custom-columns=:.metadata.namespace,:.metadata.name |":     moveFromCRD,
	"kubectl get manifestworks -A -o yaml | sed '/^ resourceVersion:/d; /^ uid:/d' >works.yaml":              moveFromCRD,
	"kubectl label apiservice v1.work.open-cluster-management.io kube-aggregator.kubernetes.io/automanaged-": moveFromCRD,
	`kubectl patch manifestwork "$name" -n "$namespace" --type merge -p '{"metadata":{"finalizers":null}}'`:  moveFromCRD,
	"kubectl wait --for=condition=Available apiservice/v1.work.open-cluster-management.io":                   moveFromCRD,
	"kubectl wait --for=delete apiservice/v1.work.open-cluster-management.io":                                moveFromCRD,
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 " +
		"-subj /CN=work-apiserver -addext subjectAltName=DNS:work-apiserver.work-apiserver.svc " +
		"-addext basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key -keyout tls.key " +
		"-out tls.crt": installation,
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 " +
		"-subj /CN=work-apiserver-ca -keyout ca.key -out ca.crt": installation,
	`sed "s/CA_BUNDLE/$(base64 -w0 ca.crt)/" examples/work-apiserver/apiservice.yaml >apiservice.yaml`: installation,
	"while read -r namespace name; do": moveFromCRD,

	"go run ./examples/policy-watcher":                                 in("a policy"),
	"go run ./examples/policy-watcher --kubeconfig ~/.kube/config":     in("a policy"),
	"kubectl apply -f - <<END":                                         in("a policy"),
	"kubectl create configmap plans --from-literal=default=gold":       in("a policy"),
	"kubectl create secret generic database --from-literal=user=alice": in("a policy"),
	"kubectl get policy greeting -o jsonpath='{.status}'":              in("a policy"),
	"go run ./examples/applied-work":                                   in("a work of a folder"),
	"go run ./examples/applied-work --manifests DIR":                   in("a work of a folder"),

	"go run ./examples/rsync":                                         incomplete("a command is required"),
	"go run ./examples/rsync serve --fake 2":                          in("an engine"),
	"go run ./examples/rsync serve --fake 3":                          in("an engine"),
	"go run ./examples/rsync create --cluster fake+cluster1 shop DIR": in("an engine"),
	"go run ./examples/rsync create --cluster fake+cluster1 --cluster fake+cluster2 shop examples/rsync/manifests/v1": in(
		"an engine"),
	"go run ./examples/rsync diff shop":                           in("an engine"),
	"go run ./examples/rsync instantiate shop":                    in("an engine"),
	"go run ./examples/rsync status --watch shop":                 in("an engine"),
	"go run ./examples/rsync diff --terminate shop":               in("an engine"),
	"go run ./examples/rsync detach --cluster fake+cluster2 shop": in("an engine"),
	"go run ./examples/rsync terminate shop":                      in("an engine"),
	"go run ./examples/rsync serve --kubeconfig-dir DIR":          in("an engine with clusters"),
	"go run ./examples/rsync serve --git URL":                     in("an engine with clusters"),
	"go run ./examples/rsync serve --broker URL":                  in("an engine with clusters"),
	"mosquitto -p 1883":                                           in("an engine with clusters"),
	"git init --bare fleet.git":                                   in("an engine with clusters"),
	"go run ./examples/rsync serve --kubeconfig-dir clusters --git fleet.git --broker " +
		"mqtt://127.0.0.1:1883": rsyncStory,
	"go run ./examples/agent --broker mqtt://127.0.0.1:1883 --source rsync --cluster c3 --kubeconfig " +
		"clusters/c3.kubeconfig": rsyncStory,
	"go run ./examples/rsync create --cluster kube+c1 --cluster git+c2 --cluster work+c3 shop examples/rsync/manifests/v1":  rsyncStory,
	"go run ./examples/rsync create --cluster kube+c1 --cluster git+c2 --cluster work+c3 shop2 examples/rsync/manifests/v2": rsyncStory,
	"go run ./examples/rsync update shop shop2": rsyncStory,
	"go run ./examples/rsync terminate shop2":   rsyncStory,

	// Benchmarks.
	"go test -run '^$' -bench 'Serve|Match' -benchmem ./interpreter ./interpreter/caller": once,
	"go test -run '^$' -bench Diff ./appliedwork":                                         sized("Diff/1000$"),
	"go test -run '^$' -bench . -benchmem ./cloudevents/mqtt ./codec":                     once,
	"go test -run '^$' -bench . -benchtime 10x ./rsync/connector/git": sized(
		"./(files=100|Apply|Get)$"),
	"go test -run '^$' -bench . -benchtime 100x ./interpreter/workhealth":         once,
	"go test -run '^$' -bench . ./rsync":                                          once,
	"go test -run '^$' -bench Publish -benchmem ./cloudevents/grpc":               once,
	"go test -C internal/e2e -run '^$' -bench Events -benchmem ./grpc":            once,
	"go test -run '^$' -bench RoundTripGRPC -benchtime 10000x ./cloudevents/work": once,
	"go test -run '^$' -benchmem ./cloudevents/work -bench":                       begun,
	"go test -run '^$' -benchmem ./cloudevents/work -bench CachedWorks -benchtime=20000x": sized(
		"CachedWorks/GOGC=400/works=1000$"),
	"go test -run '^$' -benchmem ./cloudevents/work -bench HeapPerWork -benchtime=1x": sized(
		"HeapPerWork/works=10000$"),
	"go test -run '^$' -benchmem ./cloudevents/work -bench IdleAgents -benchtime=10000x":        once,
	"go test -run '^$' -benchmem ./cloudevents/work -bench Latency -benchtime=20000x":           once,
	"go test -run '^$' -benchmem ./cloudevents/work -bench Outage -benchtime=10x":               once,
	"go test -run '^$' -benchmem ./cloudevents/work -bench Resync -benchtime=10x":               once,
	"go test -run '^$' -benchmem ./cloudevents/work -bench RoundTrip$ -benchtime=10000x":        once,
	"go test -run '^$' -benchmem ./cloudevents/work -bench RoundTrip$ -benchtime=100000x":       once,
	"go test -run '^$' -benchmem ./cloudevents/work -bench RoundTripEmbedded -benchtime=10000x": once,
	"go test -C internal/e2e -run '^$' -bench Kube -benchtime 3x ./rsync":                       sized("Kube/.*/10$"),
	"go test -C internal/e2e -run '^$' -bench Controller -benchtime 10000x ./load":              once,
	"go test -C internal/e2e -run '^$' -bench TheirRoundTrip -benchtime 10000x ./interop":       once,
	"go test -C internal/e2e -run '^$' -bench AppliedWorkSurvey -benchtime 5x .": sized(
		"AppliedWorkSurvey/^1$"),
	"go test -C internal/e2e -run '^$' -bench AppliedWorkPrune -benchtime 10x .": sized(
		"AppliedWorkPrune/^1$"),
	"go test -C internal/e2e -run '^$' -bench WatcherCost -benchtime 1000x .": sized(
		"WatcherCost/objects=1000(,consolidated)?$"),
	"go test -C internal/e2e -run '^$' -bench WatcherConnections -benchtime 20x .": sized(
		"WatcherConnections/100$"),

	// Tests: the guarantees and figures.
	"go test -C internal/e2e -race -v -run 'TestSituations/One/Requests' ./agent": ci,
	"go test ./internal/archtest":                                                               ci,
	"go test -C internal/e2e ./access":                                                          ci,
	"go test -C internal/e2e -v -run Deletion ./ocmgrpc":                                        ci,
	"go test -C internal/e2e -v -run Rejects ./ocmgrpc":                                         ci,
	"go test -C internal/e2e -v -run TestAgentOnMaestro ./ocmgrpc":                              ci,
	"go test -C internal/e2e -v -run TestAgentOnOCMServer ./ocmgrpc":                            ci,
	"go test -C internal/e2e -v -run TestAgentOnSDKBroker ./ocmgrpc":                            ci,
	"go test -C internal/e2e -v -run TestOCMAgentOnServer ./ocmgrpc":                            ci,
	"go test -C internal/e2e -v -run TestWorkRemovedWithoutAgent ./ocmgrpc":                     ci,
	"go test -C internal/e2e -v -run TestOCMSourceOnServer ./ocmgrpc":                           ci,
	"go test -C internal/e2e -v -run TestSourceOnMaestro ./ocmgrpc":                             ci,
	"go test -run Size -v ./examples/hub/internal/page":                                         ci,
	"go test ./cloudevents/memory -run Conformance":                                             ci,
	"go test ./cloudevents/mqtt -run Conformance":                                               ci,
	"go test ./interpreter/native ./interpreter/interpretertest":                                ci,
	"go test ./rsync/connector/fake ./rsync/connector/git":                                      ci,
	"go test -C internal/e2e -run InterpreterAggregates .":                                      ci,
	"go test -run 'Allocations' -v ./interpreter/...":                                           ci,
	"go test -run 'Fleet|StopLatency|Transactions|DeadCluster|BlackHole' -v ./rsync":            ci,
	"go test -run 'PushIsBounded|ProbesAreLimited' -v ./rsync/connector/git":                    ci,
	"go test -v -run SourceBinary ./internal/archtest":                                          ci,
	"go test -v -run Totals ./internal/archtest":                                                ci,
	"go test -C internal/e2e . -run 'AppliedWorkLarge/Unchanged' -appliedwork.objects 10000 -v": ci,
	"go test -C internal/e2e -run 'AppliedWorkSpeed' -v .":                                      ci,
	"go test -C internal/e2e -run 'TestFrontSpeed' -v . -args -front.full": never(
		"CI runs the test with fewer works"),
	"go test -C internal/e2e -run 'TestFrontMemorySpeed' -v . -args -front.full": never(
		"CI runs the test with fewer works"),
	"go test -C internal/e2e -run Failover -v ./rsync":                               ci,
	"go test -C internal/e2e -run 'TestKubeProgress' -v ./rsync":                     ci,
	"go test -C internal/e2e -run 'ManyEngines|JoinAmong|AutoCompaction' -v ./rsync": ci,
	"go test -C internal/e2e -run LargeContext -v ./rsync -rsync.clusters 10000": never(
		"it takes minutes; .ci/run runs the same test with fewer clusters"),
	"go test -C internal/e2e ./interop": ci,
	"go test -C internal/e2e ./consumer -run TestConsumer -update": never(
		"it writes down what TestConsumer measures, which .ci/run runs: TestWrittenBudgets in internal/e2e/consumer writes " +
			"and reads them"),
	"go test ./cloudevents/work/internal/simulation": ci,
	"go test -run SilentLoss ./cloudevents/work":     ci,
	"go test -C internal/e2e ./load":                 ci,
	"go test -C internal/e2e ./hostile":              ci,
	"go test -run 'TestIdle' -v ./cloudevents/work -work.idle-clusters 10000": never(
		"it takes minutes; .ci/run runs the same test with fewer clusters"),
	"go test ./load -run Burst -load.works 20000": never(
		"it takes minutes; .ci/run runs the same test with fewer works"),
	"go test ./load -run Lists -load.listed 25000": never(
		"it takes minutes; .ci/run runs the same test with fewer works"),
	"go test ./load -run Hostile -load.hostile 60s": never(
		"it takes minutes; .ci/run runs the same test for a shorter time"),
	"go test -C internal/e2e -run 'Killed|BrokerAway' ./trouble":                           ci,
	"go test -C internal/e2e -run 'Rooms|Contradictions' ./trouble":                        ci,
	"go test -run TestSimulation ./dynamicwatcher":                                         ci,
	"go test -run CrashAtEveryWrite ./rsync":                                               ci,
	"go test -C internal/e2e -run 'ConformanceOracle|ApplyConformance|Differential' .":     ci,
	"go test -C internal/e2e -run 'ClientsRunUnchanged|MalformedRequests|AggregatedAPI' .": ci,
	"go test ./cloudevents/work/pgstore":                                                   ci,
	"go test -C internal/e2e ./etcdstore":                                                  ci,
	"go test -C internal/e2e -run 'TestAppliedWork$/Campaign' .":                           ci,
	"go test -C internal/e2e -run 'TestAppliedWork$/DeletedAlone' .":                       ci,
	"go test -C internal/e2e -run Failover ./rsync":                                        ci,
	"go test -C internal/e2e -run InterpreterMatching .":                                   ci,
	"go test -C internal/e2e -run TestConsumer ./consumer":                                 ci,
	"go test -C internal/e2e -run TheirAgent ./interop":                                    ci,
	"go test -C internal/e2e -run TheirSource ./interop":                                   ci,
	"go test -C internal/e2e -run WatcherServerRestart .":                                  ci,

	// Releases and contributions.
	"git commit -s":             signOff,
	"git rebase --signoff main": signOff,
	"sha256sum --check SHA256SUMS": typedBy("internal/e2e/commands", "TestRelease",
		`"sha256sum", "--check", "SHA256SUMS"`),
	"gh attestation verify hub-linux-amd64 --repo spokewire/sdk-go": never("it needs a release on GitHub"),

	// The Makefile.
	".ci/run":                    ci,
	"make help":                  asItIs("make test"),
	"make check":                 ci,
	"make generate":              ci,
	"make kube":                  ci,
	"make maestro":               asItIs("maestro v0"),
	"make ocm":                   asItIs("ocm-server"),
	"make lint":                  ci,
	"make peers":                 ci,
	"make peers WATCHES=1000":    ci,
	"make test":                  ci,
	"make apidiff":               asItIs("apidiff: "),
	"make bench BENCH=Name":      verb("./appliedwork", []string{"BENCH=Diff/1000$", "BENCHTIME=1x"}, "BenchmarkDiff"),
	"make bench BENCH=RoundTrip": verb("./cloudevents/work", []string{"BENCHTIME=1x"}, "BenchmarkRoundTrip/"),
	"make cover":                 cover,
	"make dco":                   signOff,
	"make release":               typedBy("internal/e2e/commands", "TestRelease", `"make", "release"`),
	"make fuzz":                  fuzz,
	"make fuzz FUZZTIME=1m":      fuzz,
	"make fuzz RUNS=1000":        fuzz,
	"make fuzz SEEDS=100000":     fuzz,
	"make test-fast":             verb("./rsync/store/memstore", nil, "ok"),
	"make tidy":                  verb("./...", nil, "== internal/tools/lint", "go mod tidy -diff"),
	"make vuln":                  vuln,

	"apt-get install mosquitto": ci,
	"apt-get install mosquitto postgresql pgbouncer git chromium curl prometheus bash-completion": ci,
	"go mod tidy":        tidyModule,
	"etcdctl check perf": never("it writes to an etcd of yours for a minute, and is a program of etcd"),

	"etcdctl role add works":            never(documentedRole),
	"etcdctl user add hub":              never(documentedRole),
	"etcdctl user grant-role hub works": never(documentedRole),
	"etcdctl role grant-permission works readwrite --prefix=true /hub/works/": never(documentedRole),
}

const noKind = "the tests start API servers in place of the clusters of kind"

const noRegistry = "the tests have no registry of images"

const documentedRole = "a test of internal/e2e/etcdstore sends the same requests to etcd"
