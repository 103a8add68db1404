// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

// A pattern is an import path. If it ends in /..., it also matches all paths below it. Paths
// without a dot in their first element belong to this module.
const (
	apimachinery = "k8s.io/apimachinery/..."
	celGo        = "github.com/google/cel-go/..."
	ceEvent      = "github.com/cloudevents/sdk-go/v2/event"
	ceTypes      = "github.com/cloudevents/sdk-go/v2/types"
	clientGo     = "k8s.io/client-go/"
	ocmClient    = "open-cluster-management.io/api/client/work/..."
	ocmWork      = "open-cluster-management.io/api/work/v1"
	uuid         = "github.com/google/uuid"
	anything     = "*"
)

// everywhere are the packages that each package may import, in addition to the standard library and
// the internal packages that the compiler allows.
var everywhere = []string{
	"k8s.io/utils/...",
	"k8s.io/klog/v2",
	"github.com/prometheus/client_golang/prometheus",
	"internal/...",
}

// rule lists the imports that packages of one pattern may have in code outside of tests. The row
// with the longest matching pattern applies.
type rule struct {
	packages string
	may      []string
	leaf     bool // has a heavy dependency, so no package may import it
}

// rules are in order: no package imports upward or sideways. A package without a row fails the
// test. Rows for planned packages apply from their first line.
var rules = []rule{
	{packages: "."}, // the tour

	{packages: "codec", may: []string{apimachinery, ceEvent, ceTypes, ocmWork, uuid}},

	{packages: "cloudevents", may: []string{ceEvent}},
	{packages: "cloudevents/internal/engine", may: []string{"cloudevents", apimachinery, "golang.org/x/time/rate"}},
	{packages: "cloudevents/memory", may: []string{"cloudevents", "codec"}},
	{packages: "cloudevents/mqtt", may: []string{
		"cloudevents", "codec", ceEvent, "github.com/eclipse/paho.golang/...", "github.com/gorilla/websocket",
	}},
	{packages: "cloudevents/mqtt/dynsec", leaf: true, may: []string{
		"cloudevents/join", "cloudevents/mqtt", "github.com/eclipse/paho.golang/...",
	}},
	{packages: "cloudevents/grpc", may: []string{ // only kubeaccess imports it
		"cloudevents", "cloudevents/grpc/internal/broker", "cloudevents/grpc/internal/ocm", "codec", ceEvent,
		"google.golang.org/grpc/...", "google.golang.org/protobuf/reflect/...",
	}},
	{packages: "cloudevents/grpc/internal/broker"},
	{packages: "cloudevents/grpc/internal/ocm", may: []string{"cloudevents", "codec", ceEvent,
		"google.golang.org/grpc/..."}},
	{packages: "cloudevents/grpc/kubeaccess", leaf: true, may: []string{
		"cloudevents/grpc", apimachinery, "google.golang.org/grpc/codes", "google.golang.org/grpc/status",
		"k8s.io/api/authentication/v1", "k8s.io/api/authorization/v1", clientGo + "rest",
	}},
	{packages: "cloudevents/join"},
	{packages: "cloudevents/join/rsyncstore", leaf: true, may: []string{"cloudevents/join", "rsync/store"}},
	{packages: "cloudevents/transporttest", may: []string{
		"cloudevents", "codec", ceEvent, uuid,
		"github.com/google/go-cmp/cmp", "go.uber.org/goleak",
	}},
	{packages: "cloudevents/work/...", may: []string{
		"cloudevents", "codec", ocmClient, ocmWork, apimachinery, ceEvent, uuid,
		clientGo + "discovery/...", clientGo + "rest", clientGo + "util/flowcontrol", clientGo + "openapi/...",
		clientGo + "util/workqueue", // for the timers of a source's clusters; client-go links it anyway
		"sigs.k8s.io/json", "github.com/cespare/xxhash/v2", "golang.org/x/time/rate",
		"k8s.io/kube-openapi/...", "sigs.k8s.io/structured-merge-diff/v6/...", "sigs.k8s.io/yaml",
	}},
	{packages: "cloudevents/work/internal/restapi", may: []string{
		"cloudevents/work/internal/clientset", "cloudevents/work/internal/crd", apimachinery, ocmClient, ocmWork,
		"k8s.io/api/apidiscovery/v2", "k8s.io/apiserver/...", "k8s.io/component-base/version",
		"k8s.io/kube-openapi/...", "github.com/google/gnostic-models/openapiv2", "github.com/munnerz/goautoneg",
		"google.golang.org/protobuf/proto", "k8s.io/streaming/...",
	}},
	{packages: "cloudevents/work/restconfig", leaf: true, may: []string{
		"cloudevents/work", "cloudevents/work/internal/restapi", apimachinery, ocmClient, ocmWork, clientGo + "rest",
		clientGo + "tools/cache", clientGo + "util/watchlist",
	}},
	{packages: "cloudevents/work/apiserver", leaf: true, may: []string{
		"cloudevents", "cloudevents/work/internal/restapi", apimachinery, ocmClient, ocmWork, "k8s.io/apiserver/...",
		"github.com/spf13/pflag", clientGo + "kubernetes", clientGo + "rest", clientGo + "tools/clientcmd",
	}},
	{packages: "cloudevents/work/boltstore", leaf: true, may: []string{"cloudevents/work", "go.etcd.io/bbolt/..."}},
	{packages: "cloudevents/work/oteltrace", leaf: true, may: []string{
		"cloudevents/work", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes",
		"go.opentelemetry.io/otel/propagation", "go.opentelemetry.io/otel/trace",
	}},
	{packages: "cloudevents/work/pgstore", leaf: true, may: []string{
		"cloudevents/work", "github.com/jackc/pgx/v5/...", uuid,
	}},
	{packages: "cloudevents/work/etcdstore", leaf: true, may: []string{"cloudevents/work", "go.etcd.io/etcd/api/v3/...",
		"go.etcd.io/etcd/client/v3/...", "go.uber.org/zap", "google.golang.org/grpc/codes", "google.golang.org/grpc/status"}},
	{packages: "cloudevents/work/storetest", may: []string{"cloudevents/work", "github.com/google/go-cmp/cmp"}},

	{packages: "dynamicwatcher", may: []string{
		"dynamicwatcher/internal/consolidate", "dynamicwatcher/internal/stream", apimachinery,
		clientGo + "metadata", clientGo + "dynamic", clientGo + "rest",
		clientGo + "discovery", clientGo + "tools/clientcmd", clientGo + "util/workqueue", "golang.org/x/sync/singleflight",
		"sigs.k8s.io/controller-runtime/pkg/reconcile",
	}},
	{packages: "dynamicwatcher/internal/consolidate", may: []string{}},
	{packages: "dynamicwatcher/internal/stream", may: []string{apimachinery, clientGo + "metadata", clientGo + "dynamic",
		clientGo + "rest"}},
	{packages: "dynamicwatcher/source", leaf: true, may: []string{"dynamicwatcher", apimachinery, clientGo + "...",
		"sigs.k8s.io/controller-runtime/..."}},
	{packages: "dynamicwatcher/values", may: []string{
		"dynamicwatcher", apimachinery, "sigs.k8s.io/controller-runtime/pkg/reconcile",
	}},

	{packages: "appliedwork", may: []string{
		"appliedwork/internal/access", "appliedwork/internal/discovery", "appliedwork/internal/fieldset",
		"appliedwork/internal/observe", "appliedwork/v1alpha1", apimachinery,
		clientGo + "dynamic", clientGo + "metadata", "k8s.io/api/authorization/v1",
	}},
	{packages: "appliedwork/internal/access", may: []string{apimachinery, "k8s.io/api/authorization/v1"}},
	{packages: "appliedwork/internal/discovery", may: []string{apimachinery}},
	{packages: "appliedwork/internal/fieldset", may: []string{apimachinery}},
	{packages: "appliedwork/internal/observe", may: []string{apimachinery, clientGo + "dynamic"}},
	{packages: "appliedwork/health", leaf: true, may: []string{
		"appliedwork", "appliedwork/internal/observe", apimachinery,
	}},
	{packages: "appliedwork/v1alpha1", may: []string{apimachinery}},
	{packages: "appliedwork/v1alpha1/applyconfiguration/...", may: []string{
		"appliedwork/v1alpha1/...", apimachinery, clientGo + "applyconfigurations/meta/v1",
		"sigs.k8s.io/structured-merge-diff/v6/...",
	}},
	{packages: "appliedwork/reconciler", leaf: true, may: []string{
		"appliedwork/...", apimachinery, clientGo + "...", "sigs.k8s.io/controller-runtime/...",
	}},

	{packages: "interpreter", may: []string{
		"interpreter/v1alpha1", apimachinery, "k8s.io/api/...",
	}},
	{packages: "interpreter/v1alpha1", may: []string{apimachinery, "k8s.io/api/..."}},
	{packages: "interpreter/v1alpha1/internal/crdpatch", may: []string{"sigs.k8s.io/yaml"}},

	{packages: "interpreter/caller", may: []string{
		"interpreter", "interpreter/v1alpha1", apimachinery, "k8s.io/api/...", clientGo + "dynamic", clientGo + "tools/cache",
	}},
	{packages: "interpreter/native", may: []string{
		"interpreter", "interpreter/internal/aggregate", "interpreter/v1alpha1", apimachinery, "k8s.io/api/...",
	}},
	{packages: "interpreter/internal/cabundle"},
	{packages: "interpreter/internal/aggregate", may: []string{apimachinery, "k8s.io/api/core/v1"}},
	{packages: "interpreter/customization", may: []string{
		"interpreter", "interpreter/internal/aggregate", "interpreter/native", "interpreter/v1alpha1",
		apimachinery, "k8s.io/api/core/v1", "sigs.k8s.io/json", celGo,
	}},
	{packages: "interpreter/customization/kinds", may: []string{"interpreter", "interpreter/customization", apimachinery}},
	{packages: "interpreter/internal/kindstable", may: []string{"interpreter/...", apimachinery}},
	{packages: "interpreter/lua", leaf: true, may: []string{
		"interpreter", "interpreter/native", "interpreter/v1alpha1", apimachinery, "k8s.io/api/...",
		"github.com/yuin/gopher-lua/...", "sigs.k8s.io/json",
	}},
	{packages: "interpreter/workhealth", leaf: true, may: []string{
		"interpreter", "interpreter/customization/kinds", "interpreter/native", apimachinery, ocmClient, ocmWork,
		clientGo + "tools/cache", clientGo + "util/workqueue", "sigs.k8s.io/cli-utils/pkg/kstatus/status",
	}},
	{packages: "interpreter/interpretertest", may: []string{"interpreter/...", "internal/testing/certtest", apimachinery,
		"k8s.io/api/...", "github.com/google/go-cmp/cmp", "sigs.k8s.io/yaml"}},

	{packages: "rsync", may: []string{"rsync/appcontext", "rsync/connector", "rsync/internal/readyqueue", "rsync/store"}},
	{packages: "rsync/appcontext"},
	{packages: "rsync/appcontext/folder", may: []string{"rsync/appcontext"}},
	{packages: "rsync/appcontext/override", may: []string{"rsync/appcontext"}},
	{packages: "rsync/store"},
	{packages: "rsync/store/memstore", may: []string{"rsync/store"}},
	{packages: "rsync/store/etcdstore", may: []string{"rsync/store", "go.etcd.io/etcd/api/v3/...",
		"go.etcd.io/etcd/client/v3/..."}},
	{packages: "rsync/store/pgstore", leaf: true, may: []string{"rsync/store", "github.com/jackc/pgx/v5/..."}},
	{packages: "rsync/store/storetest", may: []string{"rsync/store", "github.com/google/go-cmp/cmp"}},
	{packages: "rsync/connector", may: []string{"rsync/appcontext"}},
	{packages: "rsync/connector/internal/driver", may: []string{"rsync/appcontext", "rsync/connector"}},
	{packages: "rsync/connector/fake", may: []string{"rsync/appcontext", "rsync/connector"}},
	{packages: "rsync/emco", may: []string{"rsync", "rsync/appcontext", "rsync/internal/emcokeys", "rsync/store"}},
	{packages: "rsync/revisions", may: []string{"rsync", "rsync/appcontext", "rsync/connector", "rsync/store"}},
	{packages: "rsync/internal/emcokeys", may: []string{"rsync/appcontext"}},
	{packages: "rsync/internal/readyqueue"},
	{packages: "rsync/internal/statediagram", may: []string{"rsync"}},
	{packages: "rsync/internal/wavetest", may: []string{"rsync/appcontext"}},
	{packages: "rsync/connector/connectortest", may: []string{"rsync/...", "github.com/google/go-cmp/cmp"}},
	{packages: "rsync/connector/kube", may: []string{
		"rsync/appcontext", "rsync/connector", "rsync/connector/internal/driver", apimachinery, clientGo + "...",
		"github.com/go-logr/logr", "golang.org/x/sync/errgroup", "sigs.k8s.io/cli-utils/pkg/kstatus/status",
	}},
	{packages: "rsync/connector/git", may: []string{
		"rsync/appcontext", "rsync/connector", "rsync/connector/internal/driver", "github.com/go-git/...",
		"golang.org/x/crypto/ssh/...", "go.yaml.in/yaml/v3",
	}},
	{packages: "rsync/connector/manifestwork", may: []string{
		"rsync/appcontext", "rsync/connector", "rsync/connector/internal/driver", apimachinery, ocmClient, ocmWork,
	}},
	{packages: "rsync/rsyncgrpc", may: []string{
		"rsync", "rsync/appcontext", "rsync/store", "rsync/connector", "rsync/rsyncgrpc/emcopb", "rsync/rsyncgrpc/rsyncv1",
		"google.golang.org/grpc/...", "google.golang.org/protobuf/...",
		"google.golang.org/genproto/googleapis/rpc/errdetails",
	}},
	{packages: "rsync/rsyncgrpc/emcopb", may: []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/..."}},
	{packages: "rsync/rsyncgrpc/rsyncv1", may: []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/..."}},

	{packages: "examples/...", leaf: true, may: []string{anything}},

	{packages: "internal/..."},
	{packages: "internal/testing/metertest", may: []string{
		"github.com/prometheus/client_golang/prometheus/testutil/promlint",
	}},
	{packages: "internal/grpcwire", may: []string{
		"codec", ceEvent, "google.golang.org/protobuf/...", "google.golang.org/grpc/...",
	}},
	{packages: "internal/celbound", may: []string{celGo}},
	{packages: "internal/kstatus", may: []string{apimachinery, "sigs.k8s.io/cli-utils/pkg/kstatus/status"}},
	{packages: "internal/jsonpatch", may: []string{"gopkg.in/evanphx/json-patch.v4"}},
	{packages: "internal/yamldoc", may: []string{"internal/turns", "go.yaml.in/yaml/v3", "sigs.k8s.io/yaml"}},
	{packages: "internal/postgres", may: []string{"github.com/jackc/pgx/v5/..."}},
	{packages: "internal/testing/postgres", may: []string{"internal/testing/daemon", "github.com/jackc/pgx/v5/..."}},
	{packages: "internal/jsontext", may: []string{apimachinery}},
	{packages: "internal/kubefields", may: []string{apimachinery}},
	{packages: "internal/workdata", may: []string{apimachinery, ocmWork}},
	{packages: "internal/testing/gitserver", may: []string{"golang.org/x/crypto/ssh/..."}},
	{packages: "internal/testing/agenttest", may: []string{
		apimachinery, ocmClient, ocmWork, clientGo + "tools/cache", clientGo + "util/workqueue",
	}},
	{packages: "internal/testing/conformance", may: []string{apimachinery, ocmClient, ocmWork}},
	{packages: "internal/testing/fakeapi", may: []string{apimachinery, clientGo + "rest"}},
	{packages: "internal/testing/schematest", may: []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
	{packages: "internal/testing/worktest", may: []string{apimachinery, ocmWork}},
	{packages: "internal/archtest/sourcebinary", leaf: true, may: []string{anything}},
}

// yamlParsers are the packages that parse YAML without limits on memory.
var yamlParsers = []string{"sigs.k8s.io/yaml/...", "go.yaml.in/yaml/...", "gopkg.in/yaml/...",
	"k8s.io/apimachinery/pkg/util/yaml"}

// mayParseYAML lists the packages that import a YAML parser, with the reason. All others read
// documents with internal/yamldoc, which limits the size of a parsed document.
var mayParseYAML = map[string]string{
	"internal/yamldoc":                       "it bounds them",
	"appliedwork/v1alpha1":                   "the CRD is embedded",
	"cloudevents/work/internal/crd":          "the schemas are embedded",
	"examples/agent":                         "it only writes YAML",
	"examples/internal/apiclient":            "it only writes YAML",
	"examples/policy-watcher":                "the CRD is embedded",
	"interpreter/v1alpha1/internal/crdpatch": "a generator reads files of the tree",
	"interpreter/interpretertest":            "it only writes YAML",
	"rsync/connector/git":                    "a repeated key as Kustomize sees it, after yamldoc accepted the manifest",
}

// testHelpers are packages for tests. Only they may import package testing, and no production code
// may import them.
var testHelpers = []string{
	"cloudevents/transporttest",
	"cloudevents/work/storetest",
	"examples/internal/command/commandtest",
	"interpreter/interpretertest",
	"rsync/connector/connectortest",
	"rsync/internal/wavetest",
	"rsync/store/storetest",
	"internal/testing/...",
}

// budgets are the numbers of packages of other modules that each public package may link, directly
// or not. Lower a number when the test reports fewer. Raise a number only if a new dependency is
// worth its weight for every user.
var budgets = map[string]int{
	"codec":                       70,
	"cloudevents":                 9,
	"cloudevents/memory":          71,
	"cloudevents/mqtt":            82,
	"cloudevents/grpc":            182, // gRPC with its health and reflection services
	"cloudevents/join":            9,
	"cloudevents/join/rsyncstore": 9,
	"cloudevents/mqtt/dynsec":     82,  // as package mqtt
	"cloudevents/work":            288, // 5 of them are the API server's schema validator
	"cloudevents/work/pgstore":    314, // 26 more than package work: pgx with its pool

	"cloudevents/grpc/kubeaccess": 241,  // 59 more than package grpc: client-go's REST client
	"cloudevents/work/restconfig": 685,  // the handlers of the API server, without its storage
	"cloudevents/work/etcdstore":  399,  // etcd's client, with gRPC
	"cloudevents/work/apiserver":  1100, // the generic API server, with OpenTelemetry, gRPC and CEL

	"appliedwork":           112, // most of them are from client-go's dynamic client
	"appliedwork/health":    114, // 2 more than appliedwork: kstatus and k8s.io/api/core/v1
	"appliedwork/v1alpha1":  68,
	"dynamicwatcher":        534, // the source document needs controller-runtime's Result; its package links 514
	"dynamicwatcher/values": 534, // as package dynamicwatcher
	"dynamicwatcher/source": 548, // controller-runtime's managers, caches and typed clients, which users link anyway

	"interpreter/v1alpha1":            64,
	"interpreter":                     107,
	"interpreter/native":              117,
	"interpreter/customization":       170, // 53 more than package native: CEL with its parser and protobuf
	"interpreter/customization/kinds": 170, // the dependencies of package customization
	"interpreter/lua":                 124, // 7 more than interpreter/native, with gopher-lua
	"interpreter/caller":              163, // 56 more than the server: client-go's dynamic client and informers

	"interpreter/workhealth": 344, // 174 more than the kinds: OCM's clientset and informers, kstatus

	"rsync":                        53, // 41 of them are from the Prometheus client
	"rsync/appcontext":             3,  // YAML, and its syntax tree to bound aliases
	"rsync/appcontext/folder":      3,
	"rsync/appcontext/override":    39, // JSON patches, which read API machinery's quantities
	"rsync/store":                  0,
	"rsync/store/memstore":         1,
	"rsync/store/etcdstore":        153, // etcd's client, with gRPC
	"rsync/store/pgstore":          39,
	"rsync/connector":              3,
	"rsync/connector/fake":         3,
	"rsync/connector/git":          127, // go-git with SSH and OpenPGP; YAML as Kustomize reads it
	"rsync/connector/kube":         118, // client-go's REST and metadata clients, and kubeconfig
	"rsync/connector/manifestwork": 192, // OCM's clientset, with client-go's REST client
	"rsync/emco":                   53,
	"rsync/rsyncgrpc":              145, // the packages of rsync, and gRPC with health, reflection and error details
}

// totals are the numbers of packages that a program with only this package links, including the
// standard library and Prometheus. A webhook is a small program, and must stay small.
var totals = map[string]int{
	"interpreter":        326,
	"interpreter/caller": 390,
}

// sourceBinaryBudget is for a whole program, including the standard library, that uses only the
// source with MQTT and informers from the SDK.
const sourceBinaryBudget = 559

// folders are the top-level folders. Folders that start with a dot do not count.
var folders = []string{
	"codec", "cloudevents", "dynamicwatcher", "appliedwork", "interpreter", "rsync", "examples", "internal",
}

// forbiddenFolders are names that do not describe their content, or that separate types from their
// owner. They are rejected at every depth.
var forbiddenFolders = []string{"pkg", "util", "utils", "common", "hack", "test", "tests", "api", "docs"}

// nestedModules are the only folders, besides the root, with a go.mod.
var nestedModules = []string{
	"internal/e2e",
	"internal/e2e/consumer/testdata/controller", "internal/e2e/consumer/testdata/newer",
	"internal/e2e/consumer/testdata/older",
	"internal/kube",
	"internal/maestro", "internal/maestro/ocmcommon",
	"internal/ocm",
	"internal/peers",
	"internal/tools", "internal/tools/lint", "internal/tools/sbom",
}

// rooms are the internal packages of a folder by level. A room imports only rooms of lower levels.
var rooms = map[string][][]string{
	"cloudevents/work/internal": {
		{"cache", "crd", "journal", "protocol"},
		{"clientset"},
		{"peer", "restapi"},
		{"source", "agent"},
		{"simulation"}, // only tests
	},
}
