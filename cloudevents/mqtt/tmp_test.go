package mqtt_test
import ("testing";"time";"net";"log/slog";"sync/atomic";"fmt"
mochi "github.com/mochi-mqtt/server/v2"
"github.com/mochi-mqtt/server/v2/listeners"
mpackets "github.com/mochi-mqtt/server/v2/packets"
"github.com/spokewire/sdk-go/cloudevents";"github.com/spokewire/sdk-go/cloudevents/mqtt")
type plainHook struct{ mochi.HookBase }
func (*plainHook) Provides(b byte) bool { return b==mochi.OnConnectAuthenticate||b==mochi.OnACLCheck }
func (*plainHook) OnConnectAuthenticate(*mochi.Client, mpackets.Packet) bool {return true}
func (*plainHook) OnACLCheck(*mochi.Client, string, bool) bool {return true}
func TestTmp(t *testing.T){
	for round := range 4 {
	l,_ := net.Listen("tcp","127.0.0.1:0")
	s := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler)})
	s.AddHook(&plainHook{}, nil); s.AddListener(listeners.NewNet("x", l)); s.Serve()
	url := "mqtt://"+l.Addr().String()
	const n = 20000
	var b atomic.Value; var got, pong atomic.Int64; ordered := atomic.Int64{}; var last atomic.Int64
	tr := newTransport(t, mqtt.Options{BrokerURL: url})
	ready := make(chan struct{})
	bc, err := tr.Connect(t.Context(), connectOptions(t, func(m cloudevents.Message){ <-ready
		var i int64; fmt.Sscan(m.Event.ID(), &i); if i < last.Load() { ordered.Add(1) }; last.Store(i)
		got.Add(1); b.Load().(cloudevents.Conn).Publish(t.Context(), cloudevents.Message{Topic:"pong",Event:m.Event}, func(error){}) }, "ping"))
	if err!=nil {t.Fatal(err)}
	b.Store(bc); close(ready)
	tr2 := newTransport(t, mqtt.Options{BrokerURL: url})
	a, err := tr2.Connect(t.Context(), connectOptions(t, func(m cloudevents.Message){ pong.Add(1) }, "pong"))
	if err!=nil {t.Fatal(err)}
	go func(){ for i := range n { e := sampleEvent(); e.SetID(fmt.Sprint(i+1)); if a.Publish(t.Context(), cloudevents.Message{Topic:"ping",Event:e}, func(error){}) != nil {return} } }()
	prev := int64(-1)
	for pong.Load() < n { time.Sleep(2*time.Second); if pong.Load()==prev {break}; prev = pong.Load() }
	t.Log(round, "got", got.Load(), "pong", pong.Load(), "of", n, "out of order", ordered.Load(), "mochi dropped", atomic.LoadInt64(&s.Info.MessagesDropped), atomic.LoadInt64(&s.Info.InflightDropped))
	go s.Close(); a.Close(); bc.Close()
	}
}
