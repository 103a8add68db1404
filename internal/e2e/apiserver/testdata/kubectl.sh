# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the verbs of kubectl on works. The agent of cluster1 applies them. The script ends with an
# error at the first unexpected output. HOME is a folder for its files.
set -u

fail() { echo "FAIL: $*" >&2; exit 1; }
# run runs a command that must succeed, and keeps its output for has and lacks.
run() { out=$("$@" 2>&1) || fail "$*: status $?: $out"; last="$*"; echo "+ $*"; }
# refused runs a command that must fail.
refused() { if out=$("$@" 2>&1); then fail "$*: succeeded: $out"; fi; last="$*"; echo "+ $* (refused)"; }
has() { for text; do [[ $out == *"$text"* ]] || fail "$last: no \"$text\" in the output: $out"; done; }
lacks() { for text; do [[ $out != *"$text"* ]] || fail "$last: \"$text\" is in the output: $out"; done; }
is() { [[ $out == "$1" ]] || fail "$last: the output is \"$out\", want \"$1\""; }

# work prints a work with one ConfigMap: NAME COLOR
work() {
	cat <<-EOM
		apiVersion: work.open-cluster-management.io/v1
		kind: ManifestWork
		metadata:
		  name: $1
		  namespace: cluster1
		  labels: {app: shop}
		spec:
		  workload:
		    manifests:
		    - apiVersion: v1
		      kind: ConfigMap
		      metadata: {name: $1, namespace: default}
		      data: {color: $2}
	EOM
}
color='{.spec.workload.manifests[0].data.color}'
applied() { run kubectl wait --for=condition=Applied --timeout=90s -n cluster1 "manifestwork/$1"; has "condition met"; }
cd "$HOME"

# discovery
for _ in $(seq 60); do kubectl api-resources -o name | grep -q ^manifestworks && break; sleep 1; done
run kubectl api-resources --api-group work.open-cluster-management.io -o wide
has ManifestWork true "delete,deletecollection,get,list,patch,create,update,watch"
# The API server downloads the OpenAPI documents a few seconds after the registration.
for _ in $(seq 60); do kubectl explain manifestworks >/dev/null 2>&1 && break; sleep 1; done
run kubectl explain manifestwork.spec.workload.manifests --recursive=false
has "KIND:       ManifestWork" "VERSION:    v1" "FIELD: manifests"
run kubectl explain manifestworks
has "DESCRIPTION:" "spec"
run kubectl auth can-i create manifestworks.work.open-cluster-management.io -n cluster1
is yes

# apply at the client
work a red >a.yaml
run kubectl apply -f a.yaml
is "manifestwork.work.open-cluster-management.io/a created"
applied a
run kubectl apply -f a.yaml
has unchanged
run kubectl diff -f a.yaml
work a green >a.yaml
refused kubectl diff -f a.yaml
has "-        color: red" "+        color: green"
run kubectl apply --dry-run=server -f a.yaml
has "configured (server dry run)"
run kubectl apply -f a.yaml
has configured
run kubectl get manifestwork a -n cluster1 -o "jsonpath=$color"
is green
run kubectl apply view-last-applied manifestwork/a -n cluster1
has "color: green"
applied a

# get
run kubectl get manifestworks -n cluster1
has NAME AGE a
run kubectl get manifestworks -A -o wide --show-labels
has NAMESPACE cluster1 app=shop
run kubectl get manifestworks -A -l app=shop -o name
is manifestwork.work.open-cluster-management.io/a
run kubectl get manifestworks -A -l app=other -o name
is ""
run kubectl get manifestworks -A --field-selector metadata.namespace=cluster2 -o name
is ""
run kubectl get manifestwork/a -n cluster1 -o yaml --show-managed-fields
has "color: green" "manager: kubectl-client-side-apply" "type: Applied"
run kubectl get manifestworks -A --sort-by=.metadata.name -o custom-columns=NAME:.metadata.name --no-headers
is a
refused kubectl get manifestwork/none -n cluster1
is 'Error from server (NotFound): manifestworks.work.open-cluster-management.io "none" not found'
run kubectl describe manifestwork a -n cluster1
has "Name:         a" "Kind:         ManifestWork" "Color:  green" "Events:"

# create, with validation
refused kubectl create -f a.yaml
has AlreadyExists
work bad red | sed 's/^  workload:/  colour: blue\n  workload:/' >bad.yaml
refused kubectl create -f bad.yaml
has BadRequest 'unknown field "spec.colour"'
run kubectl create --validate=warn --dry-run=server -f bad.yaml
has 'Warning: unknown field "spec.colour"' created
work away red | sed 's/namespace: cluster1/namespace: nowhere/' >away.yaml
refused kubectl create -f away.yaml
has 'namespaces "nowhere" not found'

# apply at the server
work b red >b.yaml
run kubectl apply --server-side --field-manager=one -f b.yaml
has serverside-applied
work b blue >b.yaml
refused kubectl apply --server-side --field-manager=two -f b.yaml
has conflict .spec.workload.manifests one
run kubectl apply --server-side --field-manager=two --force-conflicts -f b.yaml
run kubectl get manifestwork b -n cluster1 -o "jsonpath=$color"
is blue
applied b

# patch
run kubectl patch manifestwork b -n cluster1 --type=merge -p '{"metadata":{"labels":{"tier":"gold"}}}'
has patched
run kubectl patch manifestwork b -n cluster1 --type=json \
	-p '[{"op":"replace","path":"/spec/workload/manifests/0/data/color","value":"pink"}]'
has patched
run kubectl get manifestwork b -n cluster1 -o "jsonpath={.metadata.labels.tier} $color {.metadata.generation}"
is "gold pink 3"
refused kubectl patch manifestwork b -n cluster1 --type=strategic -p '{"metadata":{"labels":{"tier":"tin"}}}'
has "application/strategic-merge-patch+json is not supported"
run kubectl label manifestwork b -n cluster1 tier-
run kubectl annotate manifestwork b -n cluster1 note=seen
run kubectl get manifestwork b -n cluster1 -o 'jsonpath={.metadata.labels} {.metadata.annotations.note}'
is '{"app":"shop"} seen'
refused kubectl patch manifestwork b -n cluster1 --subresource=status --type=merge -p '{"status":{"conditions":[]}}'
has MethodNotAllowed

# edit and replace
export EDITOR="sed -i s/color:.pink/color:\\ black/"
run kubectl edit manifestwork b -n cluster1
has edited
run kubectl get manifestwork b -n cluster1 -o "jsonpath=$color"
is black
kubectl get manifestwork b -n cluster1 -o yaml >b.yaml || fail "get b"
run kubectl annotate --overwrite manifestwork b -n cluster1 note=again
refused kubectl replace -f b.yaml
has Conflict "the object has been modified"
sed -i '/resourceVersion:/d; s/color: black/color: white/' b.yaml
run kubectl replace -f b.yaml
has replaced

# watch
kubectl get manifestwork b -n cluster1 --watch --output-watch-events \
	-o "jsonpath={.type} {.object.spec.workload.manifests[0].data.color}{'\n'}" >watch.txt &
watch=$!
for _ in $(seq 600); do grep -q ADDED watch.txt && break; sleep 0.1; done
run kubectl patch manifestwork b -n cluster1 --type=merge -p '{"metadata":{"labels":{"tier":"last"}}}'

# delete and wait. The agent of cluster1 cleans up.
run kubectl delete manifestwork b -n cluster1 --timeout=90s
has deleted
for _ in $(seq 600); do grep -q DELETED watch.txt && break; sleep 0.1; done
kill "$watch"
out=$(cat watch.txt) last="kubectl get --watch"
has "ADDED white" "MODIFIED white" "DELETED white"
run kubectl delete manifestwork a -n cluster1 --wait=false
run kubectl wait --for=delete --timeout=90s -n cluster1 manifestwork/a
for name in c d e; do work $name red; echo ---; done >many.yaml
run kubectl apply -f many.yaml
run kubectl delete manifestworks -n cluster1 --all --timeout=90s
has '"c" deleted' '"d" deleted' '"e" deleted'
run kubectl get manifestworks -A
is "No resources found"
echo PASS
